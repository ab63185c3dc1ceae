# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of each family, trained on data/: of the small checkpoints that make_small_models.py writes."""

import io
import json
from collections import Counter

from nasty_strings import REAL, SENTENCES
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TOKENS = 800
SENTINELS = 10  # of T5, of which published tokenizers have 100


def corpus():
    return SENTENCES.read_text(encoding="utf-8").splitlines() + REAL


def byte_level(special, post):
    """As in RoBERTa and GPT-2: nothing normalised, words with the space before them, every byte a token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=TOKENS, special_tokens=special, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))  # fmt: skip
    tokenizer.post_processor = post
    return tokenizer


def roberta_tokenizer():
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    return byte_level(special, processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False))


def likeliest_pieces(count, **control):
    """What SentencePiece learns: pieces with their logarithms of likelihood, and its map of characters."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, vocab_size=count, model_type="unigram",
                                             normalization_rule_name="nmt_nfkc", num_threads=1, minloglevel=2, **control)  # fmt: skip
    trained = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return [(piece.piece, piece.score) for piece in trained.pieces], trained.normalizer_spec.precompiled_charsmap


def xlm_roberta_tokenizer():
    """As XLM-RoBERTa's: SentencePiece's likeliest pieces behind its map of characters, in the order that fairseq had."""
    learnt, characters_map = likeliest_pieces(TOKENS - 2)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram([*((token, 0.0) for token in special), *learnt[3:], ("<mask>", 0.0)], unk_id=3))
    tokenizer.normalizer = normalizers.Precompiled(characters_map)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def t5_tokenizer():
    """As T5's: the same pieces behind <pad>, </s> and <unk>, sentinels behind them in falling order, and </s> behind a text."""
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(SENTINELS))]
    learnt, characters_map = likeliest_pieces(TOKENS - len(sentinels), pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    tokenizer = Tokenizer(models.Unigram([*learnt, *((token, 0.0) for token in sentinels)], unk_id=2))
    tokenizer.normalizer = normalizers.Precompiled(characters_map)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", *sentinels])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])  # fmt: skip
    return tokenizer


def t5_converted_tokenizer():
    """The same as transformers 4 made it of spiece.model: spaces at the end are cut off, runs of them are one mark, and a word
    ends at nothing else."""
    tokenizer = t5_tokenizer()
    tokenizer.normalizer = normalizers.Sequence([
        tokenizer.normalizer, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return tokenizer


def gpt2_tokenizer():
    return byte_level(["<|endoftext|>"], processors.ByteLevel(trim_offsets=False))


def modernbert_tokenizer():
    """As ModernBERT's: form NFC first, runs of spaces and other things added as tokens, [CLS] and [SEP] by a template."""
    special = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", AddedToken("[MASK]", lstrip=True, special=True)]
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)])  # fmt: skip
    tokenizer = byte_level(special, template)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 3, 2)])
    tokenizer.add_tokens([AddedToken("|||EMAIL_ADDRESS|||", normalized=True)])
    return tokenizer


def wordpiece_of(vocabulary):
    """As BERT's, with what it normalises and splits."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def wordpiece():
    tokenizer = wordpiece_of({})
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=TOKENS, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))  # fmt: skip
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])  # fmt: skip
    return tokenizer


def frequent_pieces(tokenizer, count):
    """Characters that are not rare, at the front of words and inside, and what else stands for most of the corpus: the same on
    every run, which those of a WordPieceTrainer are not."""
    words = Counter(word for line in corpus() for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(line)))
    ends = [(word, i, j) for word in words for i in range(len(word)) for j in range(i + 1, min(len(word), i + 8) + 1)]
    counts = Counter()
    for word, i, j in ends:
        counts["##" * (i > 0) + word[i:j]] += words[word] * (j - i)
    letters = [piece for piece in counts if len(piece.removeprefix("##")) == 1 and counts[piece] >= 4]
    others = sorted((piece for piece in counts if len(piece.removeprefix("##")) > 1), key=lambda piece: (-counts[piece], piece))
    return sorted([*letters, *others[:count - len(letters)]])  # fmt: skip


def mpnet_tokenizer():
    """As MPNet's: BERT's word pieces, whose unknown token stays [UNK], between the tokens of RoBERTa, whose mask comes last."""
    front = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]"]
    tokens = [*front, *frequent_pieces(wordpiece_of({}), TOKENS - len(front) - 1), "<mask>"]
    tokenizer = wordpiece_of({token: i for i, token in enumerate(tokens)})
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([*front[:3], AddedToken("<unk>", normalized=True, special=True), "[UNK]",
                                  AddedToken("<mask>", lstrip=True, special=True)])  # fmt: skip
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


# The expressions by which Llama 3 and Qwen 2 split text differ in how many digits go together.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")  # fmt: skip


def split_byte_level(digits, special, **options):
    """As byte_level, by another expression; special tokens come behind the vocabulary."""
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT.replace("DIGITS", digits)), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=TOKENS - len(special), show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))  # fmt: skip
    tokenizer.add_special_tokens(special)
    return tokenizer


def llama3_tokenizer():
    """As Llama 3's: <|begin_of_text|> before a text, and words that are tokens are not merged."""
    tokenizer = split_byte_level(r"\p{N}{1,3}", ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[begin])])  # fmt: skip
    return tokenizer


def eurobert_tokenizer():
    """As EuroBERT's: Llama 3's, with a token behind a text, too."""
    tokenizer = llama3_tokenizer()
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<|begin_of_text|>", "<|end_of_text|>")]
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A <|end_of_text|>", special_tokens=ends)])  # fmt: skip
    return tokenizer


def qwen_tokenizer():
    """As Qwen 2's and 3's: form NFC first, no token around a text."""
    tokenizer = split_byte_level(r"\p{N}", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def characters(special, room=0):
    """BPE of characters, of which rare ones become their bytes, behind these tokens and those of bytes; with `room` for more behind it."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()  # a word at a time, so that no token reaches into the next
    control = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    counts = Counter("".join(corpus()).replace(" ", "\u2581"))
    alphabet = sorted(character for character, count in counts.items() if count >= 4)
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=TOKENS - len(control) - room, show_progress=False, initial_alphabet=alphabet,
        limit_alphabet=len(alphabet)))  # fmt: skip
    model = json.loads(learner.to_str())["model"]
    ids = {token: i for i, token in enumerate([*control, *sorted(model["vocab"], key=model["vocab"].get)])}
    return Tokenizer(models.BPE(
        ids, [tuple(pair) for pair in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))  # fmt: skip


def mistral_tokenizer():
    """As Mistral 7B's: a text is one word of characters, spaces are U+2581, and rare characters become their bytes."""
    tokenizer = characters(["<unk>", "<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])  # fmt: skip
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def gemma_tokenizer():
    """As Gemma's: the same but for what marks spaces, and runs of line ends and of spaces that are tokens."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    added = [AddedToken(text, normalized=False) for text in ("\n\n", "\u2581\u2581", "<table>")]
    tokenizer = characters(special, room=len(added))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(added)
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return tokenizer
