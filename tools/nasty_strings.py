# SPDX-License-Identifier: Apache-2.0
"""Strings that tokenizers get wrong, and some plain ones: the same list on every run."""

import random
from pathlib import Path

SENTENCES = Path(__file__).parent.parent / "data" / "sentences.txt"

# Written for this project; one language or kind of text each.
REAL = """
Die Würde des Menschen ist unantastbar; sie zu achten und zu schützen ist Pflicht aller Äußerungen über Größe und Maß.
L'été dernier, nous avons mangé des crêpes à Saint-Étienne — où il pleuvait, bien sûr, à cœur joie !
El niño pingüino preguntó: ¿cuántos años tiene tu abuela? ¡Qué pregunta más extraña!
Łódź leży nad rzeką, a żółw ścigał się z jaźwcem przez źdźbło trawy.
Příliš žluťoučký kůň úpěl ďábelské ódy.
Sấu ba lần nữa, tiếng Việt có nhiều dấu thanh chồng lên nhau: ắ ằ ẳ ẵ ặ ế ề ể ễ ệ ớ ờ ở ỡ ợ.
İstanbul'da ışık söndü; Iğdır'ın ığıl ığıl akan ırmağı dinlendi. I i İ ı
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία· ο ΣΊΣΥΦΟΣ και ο Οδυσσέας ῥοδοδάκτυλος Ἠώς ᾳ ᾼ ΐ ΰ.
Съешь же ещё этих мягких французских булок, да выпей чаю; Йод и йогурт.
Ще не вмерла їжа у ґанку, є ще й юшка. Љубав и Њива, Ђурађ и Џеп.
שלום עולם! הַשָּׁמַיִם וְהָאָרֶץ, ״ציטוט״ ־ מקף.
السلام عليكم ورحمة الله وبركاته، كَيْفَ حَالُكَ؟ ١٢٣٤ ﷺ ﻻ ـــ
यह एक हिन्दी वाक्य है। क्या आप ठीक हैं? क़ख़ग़ ज़ड़ढ़ फ़य़
আমি বাংলায় গান গাই। ড় ঢ় য় ৎ কো কৌ
தமிழ் மொழி அழகானது. கொ கோ கௌ
ಕನ್ನಡ ಭಾಷೆ. ಕೋ ಮಲಯಾಳಂ മലയാളം കോ తెలుగు ై
ภาษาไทยไม่มีช่องว่างระหว่างคำ น้ำ ๆ ฯลฯ ราคา ฿๑๒๓
ພາສາລາວ ປະເທດລາວ ຫຼາຍ
မြန်မာဘာသာ ဥ ဦ ၏။
ខ្ញុំ​ស្រឡាញ់​ភាសា​ខ្មែរ។
བོད་སྐད་ ཀྵ གྷ ཌྷ ༀ༎
ქართული ენა ᲥᲐᲠᲗᲣᲚᲘ, ჴ.
Հայերեն լեզու՝ եւ և ԵՒ։
አማርኛ ቋንቋ፡ ሰላም።
我喜欢吃北京烤鸭，你呢？“是的”，他说：『好！』（笑）２０２４年１２月
日本語のテキストです。カタカナ、ひらがな、漢字が混ざっています。ﾊﾝｶｸ ｶﾞｷﾞ がぎ ㍿ ㌔
한국어 문장입니다. 조선말 한글 각 갃 ᄒᆞᆫ글 ㄱㄴㄷ
𠀀𠮷野家で𩸽を食べる 𪚥 𫝀 𫠠 𬺰 𮯠 𰀀 𲎰 丽 豈
Ｆｕｌｌｗｉｄｔｈ　ＡＳＣＩＩ！　ｈａｌｆ ～
ﬁancé, ﬂuﬀy oﬃce; ﬆreet ĳ Ǆ ǅ ǆ ẞ ß ſt ŉ ǰ
H₂O and x² + y² ≠ z³ ± ½ ⅓ № ℡ ™ ® © ℃ Å Ω K
∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, ∑_{i=0}^{n} i² ≤ ∫ f(x) dx ≪ ∞
𝒯𝒽𝑒 𝓺𝓾𝓲𝓬𝓴 𝔟𝔯𝔬𝔴𝔫 𝕗𝕠𝕩 𝖏𝖚𝖒𝖕𝖘 𝟘𝟙𝟚 Ⓐⓑ 🄰🅱
👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ❤️ ☺ ☺️ 1️⃣ 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🫠 🪿 🫨
Z̸̡͚͓a̵̫͠l̷̰̈g̶̤͝o̴̢͌ ẗ̷͍́e̸̱̚x̴͎̕t̵̜̄
https://www.example.org:8080/a/b_c?d=e&f=%20#g-h mailto:a.b+c@d-e.co.uk
if (a[i] != NULL && *p++ == '\\0') { return ~x | (y << 3); } // 0xDEADBEEF
SELECT * FROM "users" WHERE name LIKE '%o''brien%' AND age >= 21;
def f(x: list[int]) -> dict: return {k: v**2 for k, v in enumerate(x)}  # ok?
<html><body class="x">&nbsp;&lt;p&gt;Hello&#39;s</body></html>
C:\\Users\\me\\Documents\\report (final) v2.1_backup.docx
$ cat a.txt | grep -E '^[a-z]+$' > /dev/null 2>&1 || echo "failed: $?"
1,234,567.89 1.234.567,89 1'234'567.89 3.14e-10 0b1010 1/2 50% €20 £5 ¥300 ₹99 ₿1 20:45:59 2024-02-29T00:00:00Z
don't can't won't y'all rock'n'roll o’clock ’twas “quoted” ‘single’ «guillemets» ‹angle› „low“ …dots… –en —em ―bar
antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis supercalifragilisticexpialidocious
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbb zzzzzzzzzzzzzzzzzzz qqqqxqqqq
[CLS] [SEP] [MASK] [PAD] [UNK] [cls] [Mask] [ MASK ] [MASK [MASK]] [[MASK]] [MASK][MASK] x[MASK]y [unused0] [unused99]
##ing ## # ing##ing un##believ##able #hash @user_name a_b_c __init__ ....... !!!??? -- --- ~~ ^^ `code` ```
wow Wow wowwow wow, (wow) wow_ wow1 1wow éwow wowé WOWÉ wowé. 中. 中 . a中.b <s> <s><s> < s> <s x́ X́ x́x́ 中中.
""".strip().split("\n")

SPACES = "\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u2007\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
CONTROLS = "\x00\x01\x07\x08\x0e\x1b\x7f\x80\x9f\xad\u200c\u200d\u200e\u202a\u202e\u2066\ufff9\ufffc\ufffd\ue000\uf8ff\U000e0001\U000e0041\U000f0000\U0010fffd"
MARKS = "\u0300\u0301\u0307\u0308\u0316\u0323\u0327\u0328\u0334\u0338\u0345\u0360\u05b0\u05b4\u064b\u0651\u093c\u094d\u0e38\u0eb8\u0f71\u0f72\u0fb1\u1715\u1734\u1a60\u1b44\u1dfa\u20d0\u302a\u302e\u302f\u3099\ua806\ua9c0\ufb1e\ufe20\U000101fd\U00010a0f\U00010d24\U00011235\U00011a34\U00016af0\U00016ff0\U0001d165\U0001d16e\U0001d172\U0001e000\U0001e8d0\U0001e944"
BASES = "aeioucnsyzAEIOUCNSYZ\u00e9\u0130\u0131\u01d5\u0390\u03b1\u0915\u0d15\u0e01\u1100\u1161\u11a8\uac00\uac01\u304b\u4e2d\uf900\U0001d15e\U0001d1bb\U000110a5\U0002f800"
TOKENS = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[M", "[MASK", "MASK]", "wow", "Wow\u00c9", "wow\u00e9", "WOWE", "##ing", "<s>", "<s",
          "x\u0301", "X\u0301", "\u4e2d.", "\u4e2d", ".", " ", "  ", "\u3000", "\n", "a", "\u00e9", "_", "-", "1"]
WORDS = "the of and running unbelievable tokenization embeddings transformers naïve café Zürich don't e-mail 2024 3rd".split()
RANGES = [(0x20, 0x7F), (0x80, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x590), (0x590, 0x900), (0x900, 0xE00), (0xE00, 0x1100),
          (0x1100, 0x1200), (0x1200, 0x2000), (0x2000, 0x2070), (0x2070, 0x2C00), (0x2C00, 0x2E80), (0x2E80, 0x3400), (0x3400, 0x3500),
          (0x4E00, 0xA000), (0xA000, 0xAC00), (0xAC00, 0xD7B0), (0xE000, 0xF900), (0xF900, 0xFB00), (0xFB00, 0x10000), (0x10000, 0x11000),
          (0x11000, 0x12000), (0x16000, 0x17000), (0x1B000, 0x1D000), (0x1D000, 0x1E000), (0x1E000, 0x1F000), (0x1F000, 0x20000),
          (0x20000, 0x20100), (0x2A6D0, 0x2A710), (0x2B730, 0x2B930), (0x2CE90, 0x2CEC0), (0x2F800, 0x2FA20), (0xE0000, 0xE01F0), (0x10FF00, 0x110000)]


def from_ranges(rng, count):
    low, high = rng.choice(RANGES)
    return "".join(chr(rng.randrange(low, high)) for _ in range(count))


def marks(rng):
    return "".join(rng.choice(BASES) + "".join(rng.choices(MARKS, k=rng.randrange(6))) for _ in range(rng.randrange(1, 6)))


def spaced(rng):
    return "".join(rng.choice((rng.choice(WORDS), rng.choice(SPACES), rng.choice(CONTROLS), rng.choice(".,!$+~|"))) for _ in range(12))


def tokens(rng):
    return "".join(rng.choices(TOKENS, k=rng.randrange(1, 9)))


def long_word(rng):
    """Around the limit of 100 characters, which are not bytes, counted after normalisation."""
    unit = rng.choice(["a", "\u00e9", "e\u0301", "\u0301", "ab", "\u0431", "\uac00", "\U0001d400", "\u00ad", "\u0130", "."])
    return unit * rng.choice([98, 99, 100, 101, 102, 200, 33, 34, 49, 50, 51]) + rng.choice(["", "s", "x" * 3])


def mixture(rng):
    parts = (lambda: rng.choice(WORDS), lambda: from_ranges(rng, rng.randrange(1, 4)), lambda: marks(rng), lambda: tokens(rng),
             lambda: rng.choice(SPACES), lambda: " ")
    return "".join(rng.choice(parts)() for _ in range(rng.randrange(1, 12)))


def mutated(rng, sentence):
    at = rng.randrange(len(sentence))
    return sentence[:at] + rng.choice((from_ranges(rng, 1), rng.choice(MARKS), rng.choice(CONTROLS), rng.choice(SPACES))) + sentence[at:]


def nasty_strings():
    rng = random.Random(20260101)
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    result = ["", " ", "\n", "\x00", "a", "A", "\u0301", "\ufeff", *REAL, *(line.upper() for line in REAL), *sentences[::4]]
    result += ["".join(reversed(line)) for line in REAL]
    makers = [(200, lambda: from_ranges(rng, rng.randrange(1, 12))), (250, lambda: marks(rng)), (200, lambda: spaced(rng)),
              (350, lambda: tokens(rng)), (60, lambda: long_word(rng)), (700, lambda: mixture(rng)),
              (250, lambda: mutated(rng, rng.choice(REAL)))]
    for count, make in makers:
        result += [make() for _ in range(count)]
    return result


if __name__ == "__main__":
    print("\n".join(REAL))  # a multilingual text for bench/tokenizer.cpp
