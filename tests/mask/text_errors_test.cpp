// SPDX-License-Identifier: Apache-2.0
// Every message of parse(), word for word, with the caret under the place.
#include <fmt/format.h>

#include "src/mask/expression.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

constexpr const char* kAccepted =
    "all, none, causal, window, dilated, strided, global, sink, prefix, documents, document_ids, segments, blocks, "
    "random_blocks, tree, bits, natten, where, heads, batch, longformer, bigbird";

struct Refused {
  std::string text;
  std::string place;  // the caret stands under the first character of its last occurrence in the text; "" is the end
  std::string message;
};

void expect_refused(const Refused& refused) {
  const std::size_t column = refused.place.empty() ? refused.text.size() : refused.text.rfind(refused.place);
  ASSERT_NE(column, std::string::npos);
  EXPECT_ERROR(parse(refused.text), ErrorKind::invalid_argument,
               "mask: " + refused.message + "\n  " + refused.text + "\n  " + std::string(column, ' ') + "^");
}

TEST(TextErrors, Grammar) {
  const Refused cases[] = {
      {"", "", "expected a term, '!' or '('; got the end"},
      {"causal &", "", "expected a term, '!' or '('; got the end"},
      {"   ", "", "expected a term, '!' or '('; got the end"},
      {"& causal", "&", "expected a term, '!' or '('; got '&'"},
      {"causal | !", "", "expected a term, '!' or '('; got the end"},
      {"causal && all", "& all", "'&&' is written '&'"},
      {"causal || all", "| all", "'||' is written '|'"},
      {"(causal", "", "expected ')' after a mask in parentheses; got the end"},
      {"causal)", ")", "expected '&', '|' or the end; got ')'"},
      {"causal window(3)", "window", "expected '&', '|' or the end; got 'window'"},
      {"causal & windw(4)", "windw",
       std::string("unknown term 'windw' (did you mean 'window'?); accepted: ") + kAccepted},
      {"Causal", "Causal", std::string("unknown term 'Causal' (did you mean 'causal'?); accepted: ") + kAccepted},
      {"causal()", "(", "expected '&', '|' or the end; got '('"},
      {"causal & (window(3) | sink(1)", "", "expected ')' after a mask in parentheses; got the end"},
      {"window(3.5)", ".", "expected ')' in window(w) or window(l,r); got '.'"},
      {"window(1e3)", "e3", "expected ')' in window(w) or window(l,r); got 'e3'"},
      {"window(-99999999999999999999)", "-", "-99999999999999999999 does not fit 64 bits; accepted: -2^63 to 2^63 - 1"},
      {"natten(4,4,3)", ")", "expected ',' in natten(h,w,kh,kw); got ')'"},
      {"tree(3)", "3", "expected '[' in tree([parents]); got '3'"},
      {"window", "", "expected '(' in window(w) or window(l,r); got the end"},
      {"window()", ")", "expected a number in window(w) or window(l,r); got ')'"},
      {"window(1,2,3)", ",3", "expected ')' in window(w) or window(l,r); got ','"},
      {"window(99999999999999999999)", "99999999999999999999",
       "99999999999999999999 does not fit 64 bits; accepted: -2^63 to 2^63 - 1"},
      {"dilated(3)", ")", "expected ',' in dilated(n,d); got ')'"},
      {"global([1,2", "", "expected ']' in global(g) or global([i,j,...]); got the end"},
      {"documents(0,4)", "0", "expected '[' in documents([starts]); got '0'"},
      {"segments([[0,4,0,4]])", "]])", "expected ',' in segments([[q0,q1,k0,k1,\"full\"],...]); got ']'"},
      {"segments([[0,4,0,4,\"half\"]])", "\"half", "segment kind 'half'; accepted: \"full\", \"causal\""},
      {"bits()", ")", "expected the name of an .npy file in bits(file)"},
      {"bits(\"abc)", "\"", "this quote is not closed"},
      {"random_blocks(8,1,-2)", "-2", "expected a seed, 0 to 2^64 - 1, in random_blocks(b,n,seed); got '-'"},
      {"random_blocks(8,1,18446744073709551616)", "18446744073709551616",
       "seed 18446744073709551616 does not fit 64 bits"},
      {"heads(0 causal)", "causal", "expected ':' in heads(0-3: MASK, *: MASK); got 'causal'"},
      {"heads(*: all, *: none)", "*", "a second '*'"},
      {"batch()", ")", "expected a number in batch(0-3: MASK, *: MASK); got ')'"}};
  for (const Refused& refused : cases) expect_refused(refused);
}

TEST(TextErrors, NamesThatAreNear) {
  const auto said = [](const std::string& name) {
    try {
      parse(name);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find("; accepted: "));
    }
    return std::string();
  };
  for (const auto& [written, meant] : {std::pair{"casual", "causal"},
                                       {"CASUAL", "causal"},
                                       {"widnow", "window"},
                                       {"siink", "sink"},
                                       {"document_id", "document_ids"},
                                       {"bird", ""},
                                       {"bigbrd", "bigbird"},
                                       {"long_former", "longformer"},
                                       {"nona", "none"},
                                       {"head", "heads"},
                                       {"xyz", ""},
                                       {"ALL", "all"},
                                       {"al", ""},
                                       {"sliding_window", ""}})
    EXPECT_EQ(said(written), fmt::format("mask: unknown term '{}'{}", written,
                                         *meant ? fmt::format(" (did you mean '{}'?)", meant) : ""));
  EXPECT_EQ(said(std::string(1 << 20, 'c')).find("did you mean"), std::string::npos);
}

TEST(TextErrors, OperatorsOfOtherLanguages) {
  const Refused cases[] = {
      {"~causal", "~", "'~' is written '!'"},
      {"causal & ~window(3)", "~", "'~' is written '!'"},
      {"not causal", "not", "'not' is written '!'"},
      {"causal and window(3)", "and", "'and' is written '&'"},
      {"causal AND window(3)", "AND", "'AND' is written '&'"},
      {"(sink(1) or causal) & all", "or", "'or' is written '|'"},
      {"heads(0: sink(1) or causal)", "or", "'or' is written '|'"},
      {"where(q > k and q > 3)", "and", "'and' is written '&'"},
      {"where(not q > k)", "not", "'not' is written '!'"},
      {"where(~(q > k))", "~", "'~' is written '!'"},
      {"where(Q > k)", "Q",
       "unknown name 'Q' (did you mean 'q'?) in where(EXPR); accepted: b, h, q, k, abs, min, max"}};
  for (const Refused& refused : cases) expect_refused(refused);
}

TEST(TextErrors, Where) {
  const std::string operand = "expected a number, b, h, q, k, abs, min, max, -, ! or '(' in where(EXPR); got ";
  const std::string chained = "'a < b < c' is written 'a < b & b < c' in where(EXPR), or with parentheses";
  const Refused cases[] = {
      {"where()", ")", operand + "')'"},
      {"where(q +)", ")", operand + "')'"},
      {"where(x > 1)", "x", "unknown name 'x' in where(EXPR); accepted: b, h, q, k, abs, min, max"},
      {"where(q && k)", "&&", "'&&' is written '&' in where(EXPR)"},
      {"where(q || k)", "||", "'||' is written '|' in where(EXPR)"},
      {"where(q < k < 3)", "< 3", chained},
      {"where(q == k != 3 | k)", "!= 3 | k", chained},
      {"where(q < k == (k < 3))", "== (k < 3)", chained},
      {"where(max(q < k <= 3, 1))", "<= 3, 1", chained},
      {"where(q = k)", "=", "expected an operator or ')' in where(EXPR); got '='"},
      {"where((q > k)", "", "expected an operator or ')' in where(EXPR); got the end"},
      {"where(abs(q, k))", ", k", "expected an operator or ')' in where(EXPR); got ','"},
      {"where(min(q))", "))", "expected ',' in where(EXPR); got ')'"},
      {"where(q > -9223372036854775809)", "-9223372036854775809)",
       "-9223372036854775809 does not fit 64 bits; accepted: -2^63 to 2^63 - 1"},
      {"where(q -9223372036854775808)", "9223372036854775808)",
       "9223372036854775808 does not fit 64 bits; accepted: -2^63 to 2^63 - 1"},
      {"where(99999999999999999999)", "99999999999999999999",
       "99999999999999999999 does not fit 64 bits; accepted: -2^63 to 2^63 - 1"}};
  for (const Refused& refused : cases) expect_refused(refused);
  EXPECT_ERROR(where("q k"), ErrorKind::invalid_argument,
               "mask: expected an operator or the end; got 'k'\n  q k\n    ^");
}

TEST(TextErrors, Values) {
  const std::string counts = "; accepted: 0 to 1152921504606846976", sizes = "; accepted: 1 to 1099511627776";
  const Refused cases[] = {
      {"window(-3)", "-3", "window: w = -3" + counts},
      {"window(4,-1)", "-1", "window: r = -1" + counts},
      {"window(-2,1)", "-2", "window: l = -2" + counts},
      {"dilated(-1,2)", "-1", "dilated: n = -1" + counts},
      {"dilated(3,0)", "0", "dilated: d = 0; accepted: 1 to 1152921504606846976"},
      {"dilated(1152921504606846976,2)", "1152921504606846976",
       "dilated: n * d = 1152921504606846976 * 2; accepted: at most 1152921504606846976"},
      {"strided(0)", "0", "strided: s = 0; accepted: 1 to 1152921504606846976"},
      {"global(-1)", "-1", "global: g = -1" + counts},
      {"global([1,-2])", "-2", "global: a position = -2; accepted: 0 to 1099511627776"},
      {"sink(-1)", "-1", "sink: g = -1" + counts},
      {"prefix(-1)", "-1", "prefix: n = -1" + counts},
      {"documents([])", "[", "documents: no starts; accepted: starts that ascend from 0"},
      {"documents([1,2])", "1,2", "documents: the first start is 1; accepted: starts that ascend from 0"},
      {"documents([0,5,3])", "3", "documents: start 3 follows 5; accepted: starts that ascend from 0"},
      {"segments([[0,4,0,4,full],[4,0,0,4,full]])", "[4,0",
       "segments: queries [4, 0) keys [0, 4); accepted: begin <= end"},
      {"segments([[0,4,-1,4,full]])", "[0,4", "segments: a bound = -1; accepted: 0 to 1099511627776"},
      {"random_blocks(0,1,2)", "0,1", "random_blocks: block size = 0" + sizes},
      {"random_blocks(8,-1,2)", "-1", "random_blocks: n = -1" + counts},
      {"tree([-1,0,2])", "2", "tree: node 2 has parent 2; accepted: -1 for a root, or an earlier node"},
      {"tree([-2])", "-2", "tree: node 0 has parent -2; accepted: -1 for a root, or an earlier node"},
      {"tree([0])", "0", "tree: node 0 has parent 0; accepted: -1 for a root, or an earlier node"},
      {"natten(0,4,1,1)", "0", "natten: h = 0; accepted: 1 to 1048576"},
      {"natten(4,4,5,3)", "5", "natten: kh = 5; accepted: 1 to 4"},
      {"natten(4,4,3,2)", "2", "natten: kw = 2; accepted: an odd number"},
      {"longformer(5,-1)", "-1", "longformer: g = -1" + counts},
      {"bigbird(64,2,1,1,1)", "2", "bigbird: w = 2; accepted: an odd number of blocks"},
      {"bigbird(64,3,1,-1,1)", "-1", "bigbird: r = -1" + counts},
      {"heads(0-3: causal, 2: all)", "2:", "heads: 2 is selected twice"},
      {"heads(0-2: all, 1-3: none)", "1-3", "heads: 1 is selected twice"},
      {"batch(-1: causal)", "-1", "batch: index -1; accepted: 0 to 1099511627775"},
      {"heads(3-1: causal)", "3-1", "heads: range 3-1; accepted: first-last with 0 <= first <= last <= 1099511627775"}};
  for (const Refused& refused : cases) expect_refused(refused);
}

TEST(TextErrors, FunctionsSayTheSameWithoutAPlace) {
  EXPECT_ERROR(window(-3), ErrorKind::invalid_argument, "window: w = -3; accepted: 0 to 1152921504606846976");
  EXPECT_ERROR(heads({}), ErrorKind::invalid_argument, "heads: no selection; accepted: one or more");
}

TEST(TextErrors, LongAndManyLinedTextsShowThePlace) {
  EXPECT_ERROR(parse("causal &\n\tsink(1) |\n  windw(3)\n"), ErrorKind::invalid_argument,
               std::string("mask: unknown term 'windw' (did you mean 'window'?); accepted: ") + kAccepted +
                   "\n    windw(3)\n    ^");
  std::string text;
  for (int i = 0; i < 20; ++i) text += "sink(1) | ";
  EXPECT_ERROR(parse(text + "sink(x) | all" + text), ErrorKind::invalid_argument,
               "mask: expected a number in sink(g); got 'x'\n  ..."
               "1) | sink(1) | sink(1) | sink(1) | sink(1) | sink(1) | sink(x) | allsink(1) | sink(1) | sink(1) | "
               "sink(1) | sink(1) | si"
               "...\n                                                                 ^");
  // The caret counts characters, not bytes; a word is shown whole.
  EXPECT_ERROR(parse("causal \u2227 all"), ErrorKind::invalid_argument,
               "mask: expected '&', '|' or the end; got '\u2227'\n  causal \u2227 all\n         ^");
  EXPECT_ERROR(parse("causal & fen\u00EAtre(3)"), ErrorKind::invalid_argument,
               std::string("mask: unknown term 'fen\u00EAtre'; accepted: ") + kAccepted +
                   "\n  causal & fen\u00EAtre(3)\n           ^");
  EXPECT_ERROR(parse("bits(\"é.npy\" causal)"), ErrorKind::bad_file,
               "mask: cannot read 'é.npy': No such file or directory\n  bits(\"é.npy\" causal)\n       ^");
}

TEST(TextErrors, DeepNestingIsRefused) {
  const auto repeated = [](const std::string& piece, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  const auto last_line = [](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::invalid_argument));
      return std::string(error.what()).substr(0, 37);
    }
    return std::string("no error");
  };
  const std::string refused = "mask: nested deeper than 150 levels\n ";
  const std::string refused_in_where = "mask: nested deeper than 256 levels\n ";
  EXPECT_EQ(last_line(repeated("(", 10000) + "all" + repeated(")", 10000)), refused);
  EXPECT_EQ(last_line(repeated("!", 10000) + "all"), refused);
  EXPECT_EQ(last_line(repeated("heads(*:", 10000) + "all" + repeated(")", 10000)), refused);
  EXPECT_EQ(last_line("where(" + repeated("(", 10000) + "q" + repeated(")", 10000) + ")"), refused_in_where);
  EXPECT_EQ(last_line("where(" + repeated("-", 10000) + "q)"), refused_in_where);
  EXPECT_EQ(last_line(repeated("causal | window(1) & (", 10000) + "all" + repeated(")", 10000)), refused);
  EXPECT_EQ(last_line(repeated("(", 151) + "all" + repeated(")", 151)), refused);
  EXPECT_EQ(parse(repeated("(", 150) + "all" + repeated(")", 150)), all());
  EXPECT_EQ(parse(repeated("(", 150) + "where(" + repeated("(", 255) + "q" + repeated(")", 406)), parse("where(q)"));
}

TEST(TextErrors, DeepNestingIsPointedAt) {
  EXPECT_ERROR(
      parse(std::string(10000, '(') + "all" + std::string(10000, ')')), ErrorKind::invalid_argument,
      "mask: nested deeper than 150 levels\n  ..." + std::string(120, '(') + "...\n" + std::string(65, ' ') + "^");
}

TEST(TextErrors, DeepTreesAreRefused) {
  const auto nest = [](int levels) {
    Mask mask = causal();
    for (std::int64_t i = 0; i < levels; ++i) mask = i % 2 == 0 ? mask & window(i) : mask | window(i);
    return mask;
  };
  EXPECT_EQ(nest(kMaxDepth - 1).node().depth, kMaxDepth);
  EXPECT_ERROR(nest(10000), ErrorKind::invalid_argument, "mask is nested 151 deep; accepted: at most 150");
}

// However a tree was made, its text is read back.
TEST(TextErrors, TextsOfTheDeepestTreesAreRead) {
  const auto expect_read = [](Mask (*deeper)(const Mask&, std::int64_t)) {
    Mask mask = causal();
    std::int64_t i = 0;
    try {
      for (; i < 1000; ++i) mask = deeper(mask, i);
      ADD_FAILURE() << "no limit";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("accepted: at most 150"), std::string::npos) << error.what();
    }
    EXPECT_GT(i, 70);
    EXPECT_EQ(parse(mask.text()), mask) << i;
  };
  expect_read([](const Mask& mask, std::int64_t i) { return !(mask & window(i)); });
  expect_read([](const Mask& mask, std::int64_t i) { return heads({{0, 0, mask}}, window(i)); });
  expect_read([](const Mask& mask, std::int64_t i) { return i % 2 == 0 ? mask & window(i) : mask | window(i); });
}

TEST(TextErrors, TextsOfTheDeepestExpressionsAreRead) {
  const auto expect_read = [](Symbol (*deeper)(Symbol, std::int64_t)) {
    const auto nest = [&](std::int64_t levels) {
      Symbol symbol(WhereOp::query);
      for (std::int64_t i = 0; i < levels; ++i) symbol = deeper(std::move(symbol), i);
      return where(symbol);
    };
    EXPECT_EQ(parse(nest(254).text()), nest(254));
    EXPECT_ERROR(nest(256), ErrorKind::invalid_argument,
                 "where: operations inside each other's operands on more than 256 levels");
  };
  expect_read([](Symbol s, std::int64_t i) { return min(std::move(s), abs(Symbol(WhereOp::key) - 64 * i)); });
  expect_read([](Symbol s, std::int64_t i) { return (std::move(s) + i) % (1000 + i); });
  expect_read([](Symbol s, std::int64_t) { return -std::move(s); });
}

TEST(TextErrors, DoNotSendWhatATerminalWouldObey) {
  EXPECT_ERROR(parse("causal & \x1b[31m"), ErrorKind::invalid_argument,
               "mask: expected a term, '!' or '('; got ' '\n  causal &  [31m\n           ^");
  EXPECT_ERROR(parse("bits(\xc2\x9b"
                     "31m.npy)"),
               ErrorKind::bad_file,
               "mask: cannot read '\\xC2\\x9B31m.npy': No such file or directory\n  bits( 31m.npy)\n       ^");
}

TEST(TextErrors, LongFlatExpressionsAreFine) {
  std::string text = "none";
  for (int i = 0; i < 10000; ++i) text += fmt::format(" | window({})", i % 500);
  EXPECT_EQ(std::get<term::Or>(parse(text).node().term).masks.size(), 501u);
}

}  // namespace
}  // namespace stof
