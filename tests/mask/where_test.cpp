// SPDX-License-Identifier: Apache-2.0
// where(): arithmetic, precedence, the lambda form, failures of evaluation.
#include "stof/where.h"

#include <hwy/targets.h>

#include <cmath>
#include <limits>

#include "src/mask/row_bits.h"
#include "tests/expect_error.h"
#include "tests/mask/naive.h"
#include "tests/mask/random_where.h"
#include "tests/only_target.h"

namespace stof {
namespace {

using Index = std::int64_t;

Index floor_quotient(Index a, Index b) {
  const double exact = static_cast<double>(a) / static_cast<double>(b);
  return static_cast<Index>(std::floor(exact));
}
Index floor_rest(Index a, Index b) { return a - b * floor_quotient(a, b); }

void expect_where(const std::string& text, const Definition& definition) {
  const Mask mask = where(text);
  expect_definition(mask, {.queries = 40, .keys = 70, .batch = 2, .heads = 3}, definition);
  expect_definition(mask, {.queries = 50, .keys = 33, .batch = 1, .heads = 2}, definition);
  EXPECT_EQ(parse(mask.text()), mask);
}

TEST(Where, Arithmetic) {
  expect_where("q + k == 40", [](Index, Index, Index q, Index k) { return q + k == 40; });
  expect_where("q * k > 300", [](Index, Index, Index q, Index k) { return q * k > 300; });
  expect_where("(q - k) / 7 == -2", [](Index, Index, Index q, Index k) { return floor_quotient(q - k, 7) == -2; });
  expect_where("(q - k) % 5 == 4", [](Index, Index, Index q, Index k) { return floor_rest(q - k, 5) == 4; });
  expect_where("(q - k) % -5", [](Index, Index, Index q, Index k) { return floor_rest(q - k, -5) != 0; });
  expect_where("(k - 30) / -4 < q", [](Index, Index, Index q, Index k) { return floor_quotient(k - 30, -4) < q; });
  expect_where("abs(q - k) <= 3 | min(q, k) < 2 | max(q, k) > 60", [](Index, Index, Index q, Index k) {
    return std::abs(q - k) <= 3 || std::min(q, k) < 2 || std::max(q, k) > 60;
  });
  expect_where("q - k", [](Index, Index, Index q, Index k) { return q != k; });
  expect_where("!(q & 1) | k & 6", [](Index, Index, Index q, Index k) { return ((q & 1) == 0 ? 1 : 0) | (k & 6); });
  expect_where("b + 1 == h & q >= k", [](Index b, Index h, Index q, Index k) { return b + 1 == h && q >= k; });
}

TEST(Where, PrecedenceIsThatOfCpp) {
  expect_where("q - k - 3 == 0", [](Index, Index, Index q, Index k) { return q - k - 3 == 0; });
  expect_where("1 | q == k & 0", [](auto...) { return true; });
  expect_where("(q + k * 2 < 50) == (k > 10)",
               [](Index, Index, Index q, Index k) { return (q + k * 2 < 50) == (k > 10); });
  expect_where("!q == k", [](Index, Index, Index q, Index k) { return (q == 0 ? 1 : 0) == k; });
  expect_where("-q + k <= 2", [](Index, Index, Index q, Index k) { return -q + k <= 2; });
  expect_where("q - (k - 3) * (2 - h) > 0", [](Index, Index h, Index q, Index k) { return q - (k - 3) * (2 - h) > 0; });
}

// What looks at keys or at the row alone is computed apart from the rest, rows and words of a tile are many at once.
TEST(Where, TilesHaveTheBitsOfTheirElements) {
  const MaskExtent extent{.queries = 150, .keys = 210};
  for (const char* text :
       {"q % 7 >= k % 5", "q / 10 == k / 10", "k % 3 == 1", "q % 3 == 1", "1", "q & k", "k - q % 4 * (k / 3) > 7",
        "min(q, 5) + k % 4 * (q % 2) > 3 | k / 9 < q / 9", "abs(k - 100) / (q / 40 + 1) % 3 == (q + k) % 3",
        "(k + 1) * (k + 2) / 2 % 5 != max(q % 9, 3) - 2 | !(k % 8) & -q < -60",
        // Divisors whose reciprocal, rounded, times themselves is less than 1.
        "(q + k) / 49 % 2", "(q - 70) * (k - 100) / -49 % 3 == 1", "q * k % 103 < 9", "(100 - q * k) % -98 > -30"}) {
    const BoundMask mask(where(text), extent);
    for (const Range rows : {Range{0, 150}, Range{3, 67}, Range{64, 65}})
      for (const Range keys : {Range{0, 210}, Range{64, 128}, Range{5, 70}, Range{128, 193}, Range{209, 210}}) {
        const std::int64_t words = words_for(keys.size());
        std::vector<std::uint64_t> bits(static_cast<std::size_t>(rows.size() * words), ~std::uint64_t{0});
        mask.tile_bits(0, rows, keys, bits);
        for (std::int64_t row = rows.begin; row < rows.end; ++row)
          for (std::int64_t key = keys.begin; key < keys.begin + 64 * words; ++key) {
            const std::int64_t bit = key - keys.begin;
            const auto word = static_cast<std::size_t>((row - rows.begin) * words + bit / 64);
            ASSERT_EQ(bits[word] >> (bit % 64) & 1, keys.contains(key) && mask.allows(0, row, key) ? 1u : 0u)
                << text << " at row " << row << ", key " << key;
          }
      }
  }
}

// Divisors that differ from pair to pair and ones that do not, of either sign; by every width of vectors there is.
TEST(Where, TilesOfWhateverIsWrittenHaveTheBitsOfTheirElements) {
  const MaskExtent extent{.queries = 140, .keys = 150};  // positions from 10 on
  int compared = 0;
  std::vector<std::uint64_t> bits;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Mask written = where(RandomWhere(seed).expression(4));
    const BoundMask mask(written, extent);
    try {
      for (std::int64_t row = 0; row < 140; ++row)
        for (std::int64_t key = 0; key < 150; ++key) mask.allows(0, row, key);
    } catch (const Error&) {
      continue;  // a division by zero, or an overflow
    }
    ++compared;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const OnlyTarget only(target);
      const Range rows{seed % 60, 140 - seed % 3}, keys{64 * (seed % 2), 150 - seed % 80};
      const std::int64_t words = words_for(keys.size());
      bits.assign(static_cast<std::size_t>(rows.size() * words), ~std::uint64_t{0});
      mask.tile_bits(0, rows, keys, bits);
      for (std::int64_t row = rows.begin + seed % 5; row < rows.end; row += 5)
        for (std::int64_t key = keys.begin; key < keys.end; ++key) {
          const std::int64_t bit = key - keys.begin;
          const auto word = static_cast<std::size_t>((row - rows.begin) * words + bit / 64);
          ASSERT_EQ(bits[word] >> (bit % 64) & 1, mask.allows(0, row, key) ? 1u : 0u)
              << written.text() << " at row " << row << ", key " << key << ", target " << hwy::TargetName(target);
        }
    }
  }
  EXPECT_GT(compared, 400);
}

TEST(Where, ValuesBeyond32Bits) {
  expect_where("q * 3000000000 - k * 3000000001 > -5",
               [](Index, Index, Index q, Index k) { return q * 3000000000 - k * 3000000001 > -5; });
  expect_where("(q * 100000 + k) % 3000000007 % 2", [](Index, Index, Index q, Index k) {
    return floor_rest(floor_rest(q * 100000 + k, 3000000007), 2) != 0;
  });
  // Those repeat: along the diagonal, from row to row, and where only the difference counts.
  expect_where("(q * 7919 + k * 3000000007) % 16 < 5",
               [](Index, Index, Index q, Index k) { return floor_rest(q * 7919 + k * 3000000007, 16) < 5; });
  expect_where("(q - k) * 4000000007 % 6 == 1",
               [](Index, Index, Index q, Index k) { return floor_rest((q - k) * 4000000007, 6) == 1; });
}

TEST(Where, LambdaAndTextMakeOneMask) {
  EXPECT_EQ(where([](auto, auto, auto q, auto k) { return (q - k) % 4 == 0 && q >= k; }),
            parse("where((q - k) % 4 == 0 & q >= k)"));
  EXPECT_EQ(where([](auto b, auto h, auto q, auto k) { return abs(q - k) < 5 || (b + h) * 2 <= min(q, max(k, 3)); }),
            parse("where(abs(q - k) < 5 | (b + h) * 2 <= min(q, max(k, 3)))"));
  // && and || look at truth, & and | at bits.
  EXPECT_EQ(where([](auto, auto, auto q, auto k) { return q && !k; }), parse("where(q != 0 & !k)"));
  EXPECT_EQ(where([](auto, auto, auto q, auto k) { return q & -k; }), parse("where(q & -k)"));
  EXPECT_EQ(where([](auto, auto, auto q, auto k) { return q - -3 * k != -(k / 2); }),
            parse("where(q - -3 * k != -(k / 2))"));
  EXPECT_EQ(where([](auto...) { return true; }), parse("where(1)"));
}

TEST(Where, PrintsWithTheParenthesesItNeeds) {
  EXPECT_EQ(parse("where(((q)-(k))%4==0&(q>=k))").text(), "where((q - k) % 4 == 0 & q >= k)");
  EXPECT_EQ(parse("where(q-(k-(1)))").text(), "where(q - (k - 1))");
  EXPECT_EQ(parse("where(-(-5) + -(-q))").text(), "where(5 + --q)");
  EXPECT_EQ(parse("where((q & 1) == 0 | !(k | h))").text(), "where((q & 1) == 0 | !(k | h))");
  EXPECT_EQ(where([](auto, auto, auto q, auto k) { return (q < k) == (k < 3) && ((q == k) < 3) > 4; }).text(),
            "where((q < k) == (k < 3) & ((q == k) < 3) > 4)");
}

TEST(Where, FailsWhenEvaluatedNotBefore) {
  const BoundMask mask(where("k / (q - 3) == 1"), {.queries = 8, .keys = 8});
  EXPECT_TRUE(mask.allows(0, 5, 2));
  EXPECT_EQ(mask.classify(0, {0, 8}, {0, 8}), BlockKind::partial);
  EXPECT_ERROR(mask.allows(0, 3, 5), ErrorKind::invalid_argument,
               "where(k / (q - 3) == 1): division by zero at q = 3, k = 5");
  std::vector<std::uint64_t> words(8);
  EXPECT_ERROR(mask.tile_bits(0, {2, 8}, {0, 8}, words), ErrorKind::invalid_argument,
               "where(k / (q - 3) == 1): division by zero at q = 3, k = 0");
  EXPECT_ERROR(BoundMask(where("(q + 9000000000) * (k + 9000000000)"), {2, 2}).allows(0, 1, 0),
               ErrorKind::invalid_argument, "where((q + 9000000000) * (k + 9000000000)): overflow at q = 1, k = 0");
}

TEST(Where, ConstantHeadsShareGroups) {
  const MaskExtent extent{.queries = 4, .keys = 4, .batch = 2, .heads = 12};
  EXPECT_EQ(BoundMask(where("h < 4 & q >= k"), extent).groups(), 2);
  EXPECT_EQ(BoundMask(where("q >= k - h / 6"), extent).groups(), 2);
  EXPECT_EQ(BoundMask(where("q >= k - (h + b)"), extent).groups(), 13);
}

TEST(Where, KnowsWhatDependsOnTheDifference) {
  const auto asked = [](const char* text) {
    return BoundMask(where(text), {.queries = 4, .keys = 4}).name_along_diagonal(0, {0, 4}, {0, 4}).has_value();
  };
  for (const char* text : {"q >= k", "(q - k) % 4 == 0 & k < q", "abs(k - q) < h + 3", "7", "h"})
    EXPECT_TRUE(asked(text)) << text;
  for (const char* text : {"q", "q + k == 3", "q - (k - 1) == 0", "-q - k == -4", "abs(q) == k", "q * 2 >= k", "q & k"})
    EXPECT_FALSE(asked(text)) << text;
}

TEST(Where, RefusesWhatItCannotHold) {
  std::string sum = "q";
  for (int i = 0; i < 2048; ++i) sum += " + q";
  EXPECT_ERROR(where(sum), ErrorKind::invalid_argument, "where: 4097 operations; accepted: at most 4096");
  EXPECT_ERROR(where([](auto, auto, auto q, auto) {
                 Symbol value = q;
                 for (int i = 0; i < 64; ++i) value = q - value;
                 return value;
               }),
               ErrorKind::invalid_argument,
               "where: more than 64 values wait for their operators; use fewer parentheses");
}

TEST(Where, TheLeastNumberIsWrittenAndRead) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const Mask mask = where([](auto, auto, auto q, auto k) { return q - k > Symbol(kLeast); });
  EXPECT_EQ(mask.text(), "where(q - k > -9223372036854775808)");
  EXPECT_EQ(parse(mask.text()), mask);
  EXPECT_EQ(parse("where(q - k > -  9223372036854775808)"), mask);
  EXPECT_TRUE(BoundMask(mask, {.queries = 2, .keys = 2}).allows(0, 0, 1));
  EXPECT_EQ(parse("where(q - k == -3)"), where([](auto, auto, auto q, auto k) { return q - k == -Symbol(3); }));
  EXPECT_EQ(parse("where(q + -9223372036854775808 < 0)").text(), "where(q + -9223372036854775808 < 0)");
  EXPECT_ERROR(BoundMask(parse("where(k > --9223372036854775808)"), {.queries = 1, .keys = 1}).allows(0, 0, 0),
               ErrorKind::invalid_argument, "where(k > --9223372036854775808): overflow at q = 0, k = 0");
}

TEST(Where, ConstantsWithoutASignAreTakenAsTheyAre) {
  const auto below = [](auto limit) { return where([=](auto, auto, auto, auto k) { return k < limit; }); };
  EXPECT_EQ(below(std::size_t{7}), parse("where(k < 7)"));
  EXPECT_ERROR(below(~std::uint64_t{0}), ErrorKind::invalid_argument,
               "where: 18446744073709551615 does not fit 64 bits with a sign");
}

}  // namespace
}  // namespace stof
