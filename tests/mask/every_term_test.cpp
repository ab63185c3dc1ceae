// SPDX-License-Identifier: Apache-2.0
// Every row of the table of docs/masks.md against its definition: elements, bits, rectangles, text.
#include "tests/mask/every_term.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "src/mask/bind.h"
#include "src/mask/row_bits.h"
#include "stof/error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

// Small, so that all rectangles can be asked about; and of several 64 x 64 cells each way, whose corners are chosen.
const MaskExtent kSmall[] = {{.queries = 24, .keys = 24, .batch = 2, .heads = 3},
                             {.queries = 5, .keys = 21, .batch = 2, .heads = 3},
                             {.queries = 21, .keys = 14, .batch = 2, .heads = 3}};
const MaskExtent kLarge[] = {{.queries = 240, .keys = 240, .batch = 2, .heads = 3},
                             {.queries = 70, .keys = 200, .batch = 2, .heads = 3},
                             {.queries = 200, .keys = 130, .batch = 2, .heads = 3}};

// Allowed pairs of one head, for any rectangle.
class Counts {
 public:
  Counts(const DefinedTerm& term, const MaskExtent& extent, std::int64_t item, std::int64_t head)
      : stride_(extent.keys + 1), sums_(static_cast<std::size_t>((extent.queries + 1) * stride_)) {
    for (std::int64_t i = 0; i < extent.queries; ++i)
      for (std::int64_t j = 0; j < extent.keys; ++j)
        sum(i + 1, j + 1) = (term.allows(item, head, i + extent.keys - extent.queries, j) ? 1 : 0) + sum(i, j + 1) +
                            sum(i + 1, j) - sum(i, j);
  }
  std::int64_t in(Range rows, Range keys) const {
    return at(rows.end, keys.end) - at(rows.begin, keys.end) - at(rows.end, keys.begin) + at(rows.begin, keys.begin);
  }

 private:
  int& sum(std::int64_t i, std::int64_t j) { return sums_[static_cast<std::size_t>(i * stride_ + j)]; }
  int at(std::int64_t i, std::int64_t j) const { return sums_[static_cast<std::size_t>(i * stride_ + j)]; }
  std::int64_t stride_;
  std::vector<int> sums_;
};

// Ends of ranges: all of them up to `every`, further on those around multiples of 8 and 64.
std::vector<std::int64_t> ends(std::int64_t size, std::int64_t every) {
  std::set<std::int64_t> chosen = {size};
  for (std::int64_t at = 0; at < size; ++at)
    if (size <= every || at % 64 <= 1 || at % 64 == 63 || at % 24 == 8) chosen.insert(at);
  return {chosen.begin(), chosen.end()};
}

template <class Visit>
void for_each_rectangle(const MaskExtent& extent, Visit&& visit) {
  const std::vector<std::int64_t> rows = ends(extent.queries, 32), keys = ends(extent.keys, 32);
  for (const std::int64_t top : rows)
    for (const std::int64_t bottom : rows)
      for (const std::int64_t left : keys)
        for (const std::int64_t right : keys)
          if (top < bottom && left < right) visit(Range{top, bottom}, Range{left, right});
}

struct Claims {
  int wrong = 0, decided = 0;
};

Claims classify_all(const BoundMask& mask, int group, const Counts& counts) {
  Claims claims;
  for_each_rectangle(mask.extent(), [&](Range rows, Range keys) {
    const BlockKind kind = mask.classify(group, rows, keys);
    const std::int64_t allowed = counts.in(rows, keys), all = rows.size() * keys.size();
    claims.wrong += (kind == BlockKind::empty && allowed != 0) || (kind == BlockKind::full && allowed != all) ? 1 : 0;
    claims.decided += kind == BlockKind::partial ? 0 : 1;
  });
  return claims;
}

std::int64_t wrong_elements(const BoundMask& mask, int group, const Counts& counts) {
  const MaskExtent& extent = mask.extent();
  const std::int64_t words = words_for(extent.keys);
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(extent.queries * words));
  mask.tile_bits(group, {0, extent.queries}, {0, extent.keys}, bits);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < extent.queries; ++i)
    for (std::int64_t j = 0; j < extent.keys; ++j) {
      const bool expected = counts.in({i, i + 1}, {j, j + 1}) != 0;
      const bool bit = (bits[static_cast<std::size_t>(i * words + j / 64)] >> (j % 64) & 1) != 0;
      wrong += mask.allows(group, i, j) != expected || bit != expected ? 1 : 0;
    }
  return wrong;
}

void expect_defined(const DefinedTerm& term, const MaskExtent& extent, const std::filesystem::path& folder) {
  const BoundMask mask(parse(term.text, folder), extent);
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head) {
      SCOPED_TRACE(testing::Message() << term.text.substr(0, 80) << " of " << extent.queries << "x" << extent.keys
                                      << ", item " << item << " head " << head);
      const Counts counts(term, extent, item, head);
      const int group = mask.group_of(item, head);
      EXPECT_EQ(wrong_elements(mask, group, counts), 0);
      const auto [wrong, decided] = classify_all(mask, group, counts);
      EXPECT_EQ(wrong, 0);
      // bits() knows whole cells of 64 x 64 only.
      EXPECT_TRUE(decided > 0 || term.text.starts_with("bits")) << "no rectangle was found empty or full";
    }
}

TEST(EveryTerm, IsItsDefinitionInEveryRectangle) {
  for (const MaskExtent& extent : kSmall) {
    const TemporaryFolder folder;
    for (const DefinedTerm& term : every_term(extent, folder.path())) expect_defined(term, extent, folder.path());
  }
}

TEST(EveryTerm, IsItsDefinitionAcrossCells) {
  for (const MaskExtent& extent : kLarge) {
    const TemporaryFolder folder;
    for (const DefinedTerm& term : every_term(extent, folder.path())) expect_defined(term, extent, folder.path());
  }
}

TEST(EveryTerm, PrintsTextThatParsesToAnEqualMask) {
  const TemporaryFolder folder;
  for (const DefinedTerm& term : every_term(kSmall[0], folder.path())) {
    const Mask mask = parse(term.text, folder.path()), again = parse(mask.text(), folder.path());
    EXPECT_EQ(again, mask) << mask.text();
    EXPECT_EQ(again.text(), mask.text());
    EXPECT_EQ(again.fingerprint(), mask.fingerprint());
    // Normalised: double negation, repetition, order and grouping do not count.
    EXPECT_EQ(!!mask, mask);
    EXPECT_EQ((mask | mask) & mask, mask);
    EXPECT_EQ(causal() & (mask & sink(1)), (sink(1) & causal()) & mask);
    EXPECT_EQ((mask | causal()).fingerprint(), (causal() | mask).fingerprint());
  }
}

TEST(EveryTerm, DiffersFromEveryOther) {
  const TemporaryFolder folder;
  std::set<std::string> seen;
  for (const DefinedTerm& term : every_term(kSmall[0], folder.path()))
    EXPECT_TRUE(seen.insert(parse(term.text, folder.path()).fingerprint()).second) << term.text;
}

TEST(EveryTerm, IsInTheTable) {
  const TemporaryFolder folder;
  std::string texts;
  for (const DefinedTerm& term : every_term(kSmall[0], folder.path())) texts += " " + term.text;
  std::string accepted;
  try {
    parse("x");
  } catch (const Error& error) {
    accepted = error.what();
  }
  std::stringstream list(accepted.substr(accepted.find("accepted: ") + 10, accepted.find('\n')));
  int terms = 0;
  for (std::string name; list >> name && name != "x"; ++terms) {
    name = name.substr(0, name.find(','));
    EXPECT_NE(texts.find(" " + name), std::string::npos) << name;
  }
  EXPECT_GE(terms, 22);
}

}  // namespace
}  // namespace stof
