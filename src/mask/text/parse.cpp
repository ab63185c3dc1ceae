// SPDX-License-Identifier: Apache-2.0
// Text to mask: the grammar, and one row per term.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "src/mask/expression.h"
#include "src/mask/named_arrays.h"
#include "src/mask/text/arguments.h"
#include "src/mask/text/hints.h"
#include "src/mask/text/usages.h"

namespace stof {
namespace {

struct TermSyntax {
  std::string_view name, usage;
  Mask (*read)(Arguments&);
};

Mask read_window(Arguments& arguments) {
  const std::int64_t first = arguments.integer();
  return arguments.more() ? window(first, arguments.integer()) : window(first);
}

Mask read_dilated(Arguments& arguments) {
  const std::int64_t steps = arguments.integer();
  return dilated(steps, arguments.integer());
}

Mask read_global(Arguments& arguments) {
  return arguments.next_is_list() ? global_tokens(arguments.integers()) : global_tokens(arguments.integer());
}

Mask read_bits(Arguments& arguments) {
  const Arguments::Array array = arguments.array();
  return bits(array.tensor.view(), array.file);
}

Mask read_document_ids(Arguments& arguments) {
  const Arguments::Array array = arguments.array();
  return document_ids(array.tensor.view(), array.file);
}

Mask read_blocks(Arguments& arguments) {
  const std::int64_t size = arguments.integer();
  const Arguments::Array array = arguments.array();
  return blocks(size, array.tensor.view(), array.file);
}

Mask read_random_blocks(Arguments& arguments) {
  const std::int64_t size = arguments.integer(), count = arguments.integer();
  return random_blocks(size, count, arguments.seed());
}

Mask read_natten(Arguments& arguments) {
  const std::int64_t height = arguments.integer(), width = arguments.integer(), kernel_height = arguments.integer();
  return natten(height, width, kernel_height, arguments.integer());
}

Mask read_longformer(Arguments& arguments) {
  const std::int64_t window = arguments.integer();
  return longformer(window, arguments.integer());
}

Mask read_bigbird(Arguments& arguments) {
  const std::int64_t block = arguments.integer(), window = arguments.integer();
  const std::int64_t global = arguments.integer(), random = arguments.integer();
  return bigbird(block, window, global, random, arguments.seed());
}

template <Mask (*some)(std::vector<Selection>), Mask (*every)(std::vector<Selection>, Mask)>
Mask read_selection(Arguments& arguments) {
  std::vector<Mask> otherwise;
  std::vector<Selection> selections = arguments.selections(otherwise);
  return otherwise.empty() ? some(std::move(selections)) : every(std::move(selections), otherwise[0]);
}

// `usage` without parentheses: the term takes no arguments.
constexpr TermSyntax kTerms[] = {
    {"all", "all", [](Arguments&) { return all(); }},
    {"none", "none", [](Arguments&) { return none(); }},
    {"causal", "causal", [](Arguments&) { return causal(); }},
    {"window", "window(w) or window(l,r)", read_window},
    {"dilated", "dilated(n,d)", read_dilated},
    {"strided", "strided(s)", [](Arguments& a) { return strided(a.integer()); }},
    {"global", "global(g) or global([i,j,...])", read_global},
    {"sink", "sink(g)", [](Arguments& a) { return sink(a.integer()); }},
    {"prefix", "prefix(n)", [](Arguments& a) { return prefix(a.integer()); }},
    {"documents", "documents([starts])", [](Arguments& a) { return documents(a.integers()); }},
    {"document_ids", "document_ids(file)", read_document_ids},
    {"segments", "segments([[q0,q1,k0,k1,\"full\"],...])", [](Arguments& a) { return segments(a.segments()); }},
    {"blocks", "blocks(b,file)", read_blocks},
    {"random_blocks", "random_blocks(b,n,seed)", read_random_blocks},
    {"tree", "tree([parents])", [](Arguments& a) { return tree(a.integers()); }},
    {"bits", "bits(file)", read_bits},
    {"natten", "natten(h,w,kh,kw)", read_natten},
    {"where", "where(EXPR)", [](Arguments& a) { return read_where(a.start()); }},
    {"heads", "heads(0-3: MASK, *: MASK)", read_selection<heads, heads>},
    {"batch", "batch(0-3: MASK, *: MASK)", read_selection<batch, batch>},
    {"longformer", "longformer(w,g)", read_longformer},
    {"bigbird", "bigbird(b,w,g,r,seed)", read_bigbird},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kTerms)> names;
  std::ranges::transform(kTerms, names.begin(), &TermSyntax::name);
  return names;
}();

Mask parse_term(Cursor& cursor, const std::filesystem::path& folder) {
  cursor.count_term();
  refuse_other_operators(cursor);
  const std::size_t place = cursor.place();
  const std::string_view name = cursor.word();
  if (name.empty()) cursor.fail_here(fmt::format("expected a term, '!' or '('; got {}", cursor.got()));
  const auto* syntax =
      std::find_if(std::begin(kTerms), std::end(kTerms), [&](const TermSyntax& term) { return term.name == name; });
  if (syntax == std::end(kTerms))
    cursor.fail_at(place, fmt::format("unknown term '{}'{}; accepted: {}", name, nearest_name(name, kNames),
                                      fmt::join(kNames, ", ")));
  Arguments arguments(cursor, syntax->usage, folder);
  try {
    Mask mask = syntax->read(arguments);
    if (syntax->usage != syntax->name) arguments.close();
    return mask;
  } catch (const ArgumentError& error) {
    arguments.point_at(error);
  }
}

Mask parse_factor(Cursor& cursor, const std::filesystem::path& folder) {
  if (cursor.peek() != '!' && cursor.peek() != '(') return parse_term(cursor, folder);
  const Cursor::Nested nested(cursor, kMaxDepth);
  if (cursor.eat("!")) return !parse_factor(cursor, folder);
  cursor.expect('(', "before a mask");
  Mask mask = parse_expression(cursor, folder);
  cursor.expect(')', "after a mask in parentheses");
  return mask;
}

// One that is written twice, as in C++, is answered with how it is written here.
bool eat_operator(Cursor& cursor, std::string_view symbol) {
  if (!cursor.eat(symbol)) return false;
  if (cursor.peek() == symbol[0]) cursor.fail_here(fmt::format("'{0}{0}' is written '{0}'", symbol));
  return true;
}

Mask parse_conjunction(Cursor& cursor, const std::filesystem::path& folder) {
  std::vector<Mask> masks{parse_factor(cursor, folder)};
  while (eat_operator(cursor, "&")) masks.push_back(parse_factor(cursor, folder));
  refuse_other_operators(cursor);
  return conjunction(std::move(masks));
}

}  // namespace

std::vector<std::string_view> usages_of_terms() {
  std::vector<std::string_view> usages;
  for (const TermSyntax& term : kTerms) usages.push_back(term.usage);
  return usages;
}

Mask parse_expression(Cursor& cursor, const std::filesystem::path& folder) {
  std::vector<Mask> masks{parse_conjunction(cursor, folder)};
  while (eat_operator(cursor, "|")) masks.push_back(parse_conjunction(cursor, folder));
  return disjunction(std::move(masks));
}

Mask parse(std::string_view text, const std::filesystem::path& folder) {
  Cursor cursor(text);
  Mask mask = parse_expression(cursor, folder);
  if (!cursor.at_end()) cursor.fail_here(fmt::format("expected '&', '|' or the end; got {}", cursor.got()));
  return mask;
}

}  // namespace stof
