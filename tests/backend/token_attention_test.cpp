// SPDX-License-Identifier: Apache-2.0
// Attention of one token for each text: heads as a rotation by itself leaves them, keys where a rotation keeps them,
// and the result against the definition in double, on a GPU where there is one.
#include "src/backend/cuda/attention/token_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "src/backend/cuda/driver/device.h"
#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr std::int64_t kPositions = 40;
const DeviceCaps kH200{.name = "H200", .cores = 132, .arch = 90};

class TokenAttentionOf : public RowOperationsOf {};
INSTANTIATE_TEST_SUITE_P(Dtypes, TokenAttentionOf,
                         testing::Values(Place{"cuda", DType::f16}, Place{"cuda", DType::bf16}), name_of_place);

struct Step {
  TokenAttentionShape shape;
  std::int64_t capacity = 0;
  bool turns = true, norms = false;
  std::int64_t width() const { return 2 * shape.kv_heads * shape.head_dim; }
  std::int64_t columns() const { return shape.heads * shape.head_dim + width(); }
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  const TokenAttentionShape& s = step.shape;
  return out << s.texts << " texts of " << s.keys << " keys, " << s.heads << ":" << s.kv_heads << " heads of "
             << s.head_dim << ", keys below " << s.allowed.prefix_end << " and from " << s.allowed.begin << " to "
             << s.allowed.end << (step.turns ? ", turned" : "") << (step.norms ? ", normed" : "");
}

void fill_rows(const Tensor& rows, std::int64_t first, std::int64_t count, std::int64_t columns, float value) {
  for (std::int64_t i = first * columns; i < (first + count) * columns; ++i) set_element(rows, i, value);
}

struct Problem {
  Problem(const Step& of, std::mt19937& random)
      : step(of),
        x(random_tensor(of.shape.dtype, {of.shape.texts, of.columns()}, random, 0.1f, 2.f)),
        cache(random_tensor(of.shape.dtype, {of.shape.texts * of.capacity, of.width()}, random)),
        angles(random_tensor(DType::f32, {kPositions, of.shape.head_dim}, random)),
        q_scale(random_tensor(DType::f32, {of.shape.head_dim}, random)),
        k_scale(random_tensor(DType::f32, {of.shape.head_dim}, random)) {
    const auto some = [&](std::int64_t least, std::int64_t most) {
      return static_cast<std::int32_t>(std::uniform_int_distribution<std::int64_t>(least, most)(random));
    };
    for (std::int64_t text = 0; text < of.shape.texts; ++text) {
      const std::int32_t length = text == 0 ? static_cast<std::int32_t>(of.shape.keys) : some(1, of.shape.keys);
      lengths.push_back(length);
      positions.push_back(some(0, kPositions - 1));
      places.push_back(static_cast<std::int32_t>(text * of.capacity) + length - 1);
      // Nothing of them may be read: the token's own row is not there yet.
      fill_rows(cache, places.back(), of.capacity - length + 1, of.width(), std::numeric_limits<float>::quiet_NaN());
    }
  }
  RotaryHeads heads(Operands& there, void* kept) const {
    RotaryHeads heads{.angles = step.turns ? there.floats(angles) : nullptr,
                      .positions = there.in(positions),
                      .heads = step.shape.heads + step.shape.kv_heads,
                      .head_dim = step.shape.head_dim,
                      .kept = {.rows = kept, .places = there.in(places), .first_head = step.shape.heads}};
    if (step.norms)
      heads.norms = {.q_scale = there.floats(q_scale), .k_scale = there.floats(k_scale), .q_heads = step.shape.heads};
    return heads;
  }
  Step step;
  Tensor x, cache, angles, q_scale, k_scale;
  std::vector<std::int32_t> lengths, positions, places;
};

struct Rows {
  Tensor q, cache;
};

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  std::memcpy(copy.data(), tensor.data(), tensor.bytes());
  return copy;
}

// What a rotation by itself leaves, or, of heads that nothing turns, copies.
Rows apart(const Problem& problem, const Device& device) {
  const Step& step = problem.step;
  Rows rows{copy_of(problem.x), copy_of(problem.cache)};
  if (!step.turns) {
    const std::size_t bytes = static_cast<std::size_t>(step.width()) * size_of(step.shape.dtype),
                      of_q = static_cast<std::size_t>(step.columns()) * size_of(step.shape.dtype) - bytes;
    for (std::size_t text = 0; text < problem.places.size(); ++text)
      std::memcpy(rows.cache.as<std::byte>() + static_cast<std::size_t>(problem.places[text]) * bytes,
                  problem.x.as<std::byte>() + text * (of_q + bytes) + of_q, bytes);
    return rows;
  }
  Operands there(device);
  void* const q = there.result(rows.q);
  const RotaryHeads heads = problem.heads(there, there.result(rows.cache));
  device.backend->rows.rotate({step.shape.texts, step.columns(), step.shape.dtype, there.queue()}, heads,
                              there.in(problem.x), q);
  there.finish();
  return rows;
}

std::vector<double> attended(const Problem& problem, const Rows& rows, std::int64_t text, std::int64_t head) {
  const Step& step = problem.step;
  const TokenAttentionShape& s = step.shape;
  const std::int64_t length = problem.lengths[static_cast<std::size_t>(text)], d = s.head_dim,
                     kv_head = head / (s.heads / s.kv_heads);
  std::vector<double> out(static_cast<std::size_t>(d), 0.), weights;
  double sum = 0;
  for (std::int64_t key = 0; key < length; ++key) {
    const std::int64_t position = length - 1;
    const bool seen =
        key < s.allowed.prefix_end || (key >= position + s.allowed.begin && key < position + s.allowed.end);
    if (!seen) continue;
    const std::int64_t row = (text * step.capacity + key) * step.width() + kv_head * d;
    double score = 0;
    for (std::int64_t i = 0; i < d; ++i)
      score += element(rows.q, text * step.columns() + head * d + i) * element(rows.cache, row + i);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
    sum += weight;
    for (std::int64_t i = 0; i < d; ++i)
      out[static_cast<std::size_t>(i)] += weight * element(rows.cache, row + s.kv_heads * d + i);
  }
  for (double& x : out) x = sum == 0 ? 0 : x / sum;
  return out;
}

void expect_attended(const Problem& problem, const Rows& rows, const Tensor& out) {
  const TokenAttentionShape& s = problem.step.shape;
  for (std::int64_t text = 0; text < s.texts; ++text)
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::vector<double> want = attended(problem, rows, text, head);
      double squares = 0, off = 0;
      for (std::int64_t i = 0; i < s.head_dim; ++i) {
        const double value = want[static_cast<std::size_t>(i)],
                     got = element(out, (text * s.heads + head) * s.head_dim + i);
        squares += value * value, off += (got - value) * (got - value);
      }
      // Weights and results are rounded, each by half a unit at most.
      ASSERT_LE(std::sqrt(off), 2.5 * rounding(s.dtype) * std::sqrt(squares) + 1e-9)
          << "text " << text << ", head " << head;
    }
}

void expect_right(const Step& step, const Device& device, std::mt19937& random) {
  SCOPED_TRACE(testing::Message() << step);
  const Problem problem(step, random);
  const TokenAttention& joined = *device.backend->token_attention;
  const Rows want = apart(problem, device);
  const Tensor cache = copy_of(problem.cache),
               out =
                   random_tensor(step.shape.dtype, {step.shape.texts, step.shape.heads * step.shape.head_dim}, random);
  Operands there(device);
  joined.prepare(step.shape, device);
  const TokenAttentionCall call{.x = there.in(problem.x),
                                .out = there.result(out),
                                .heads = problem.heads(there, there.result(cache)),
                                .capacity = step.capacity,
                                .lengths = there.in(problem.lengths),
                                .queue = there.queue()};
  joined.run(step.shape, call);
  there.finish();
  EXPECT_EQ(std::memcmp(cache.data(), want.cache.data(), cache.bytes()), 0);
  expect_attended(problem, want, out);
}

constexpr SpanRule kCausal{.end = 1};

TEST_P(TokenAttentionOf, SeesAllKeysOfItsText) {
  std::mt19937 random(71);
  for (const std::int64_t keys : {1, 2, 15, 16, 17, 127, 128, 129, 257, 700})
    for (const std::int64_t head_dim : {64, 128})
      for (const bool norms : {false, true})
        expect_right({{.texts = 2,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = head_dim,
                       .keys = keys,
                       .allowed = kCausal,
                       .dtype = dtype()},
                      keys + 3,
                      true,
                      norms},
                     device_, random);
}

TEST_P(TokenAttentionOf, HasUpToEightHeadsForAKey) {
  std::mt19937 random(72);
  for (std::int64_t group = 1; group <= 8; ++group)
    for (const std::int64_t keys : {40, 300})
      expect_right({{.texts = 3,
                     .heads = 3 * group,
                     .kv_heads = 3,
                     .head_dim = 128,
                     .keys = keys,
                     .allowed = kCausal,
                     .dtype = dtype()},
                    keys,
                    true,
                    group % 2 == 0},
                   device_, random);
}

TEST_P(TokenAttentionOf, NeedNotTurnAnything) {
  std::mt19937 random(73);
  for (const std::int64_t head_dim : {64, 128})
    for (const std::int64_t keys : {5, 200})
      expect_right({{.texts = 4,
                     .heads = 12,
                     .kv_heads = 12,
                     .head_dim = head_dim,
                     .keys = keys,
                     .allowed = kCausal,
                     .dtype = dtype()},
                    keys + 1,
                    false},
                   device_, random);
}

// Prefixes, windows, both; windows that leave the token itself out, or all keys.
TEST_P(TokenAttentionOf, SeesWhatTheRuleAllows) {
  std::mt19937 random(74);
  const std::int32_t far = SpanRule::kNoBound;
  for (const SpanRule rule :
       {SpanRule{0, -63, 1}, SpanRule{4, -63, 1}, SpanRule{100, -20, 1}, SpanRule{0, -50, -9}, SpanRule{7, -50, -9},
        SpanRule{0, 1, far}, SpanRule{3, 0, 0}, SpanRule{16, -far, far}, SpanRule{0, -199, 1}, SpanRule{300, -15, 1}})
    for (const std::int64_t keys : {1, 30, 64, 333, 1500})
      expect_right(
          {{.texts = 2, .heads = 6, .kv_heads = 2, .head_dim = 64, .keys = keys, .allowed = rule, .dtype = dtype()},
           keys,
           true},
          device_, random);
}

// One CTA for a text's key head, or a cluster of two to eight; one group of keys for a warp, or several.
TEST_P(TokenAttentionOf, SharesKeysOutInEveryWay) {
  std::mt19937 random(75);
  for (const std::int64_t texts : {1, 2, 5, 16})
    for (const std::int64_t kv_heads : {1, 4, 8})
      for (const std::int64_t keys : {200, 1030, 4096})
        if (texts * kv_heads * keys < 200000)
          expect_right({{.texts = texts,
                         .heads = 2 * kv_heads,
                         .kv_heads = kv_heads,
                         .head_dim = 128,
                         .keys = keys,
                         .allowed = kCausal,
                         .dtype = dtype()},
                        keys,
                        true,
                        true},
                       device_, random);
}

TEST_P(TokenAttentionOf, OfRandomSteps) {
  std::mt19937 random(76);
  const auto some = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 60; ++i) {
    Step step{.shape = {.texts = some(1, 9),
                        .kv_heads = some(1, 9),
                        .head_dim = 64 * some(1, 2),
                        .keys = some(1, 600),
                        .dtype = dtype()}};
    step.shape.heads = step.shape.kv_heads * some(1, 8);
    step.shape.allowed = {static_cast<std::int32_t>(some(0, 2) * some(0, 90)), -static_cast<std::int32_t>(some(0, 500)),
                          1};
    if (i % 3 == 0) step.shape.allowed.begin = -SpanRule::kNoBound;
    step.capacity = step.shape.keys + some(0, 20);
    step.turns = i % 4 != 0, step.norms = step.turns && i % 2 == 0;
    expect_right(step, device_, random);
  }
}

TEST(TokenAttention, SaysWhatItDoesNotTake) {
  const auto why = [](TokenAttentionShape shape, const DeviceCaps& caps = kH200) {
    return cuda::token_attention.refuses(shape, caps).value_or("");
  };
  const TokenAttentionShape taken{
      .texts = 4, .heads = 16, .kv_heads = 8, .head_dim = 128, .keys = 100, .allowed = kCausal, .dtype = DType::bf16};
  EXPECT_EQ(why(taken), "");
  EXPECT_EQ(why(taken, {.name = "", .cores = 80, .arch = 75}), "it needs compute capability 8.0; this device has 7.5");
  const auto with = [&](auto change) {
    TokenAttentionShape shape = taken;
    change(shape);
    return why(shape);
  };
  EXPECT_EQ(with([](auto& s) { s.dtype = DType::f32; }), "it takes f16 and bf16, not f32");
  EXPECT_EQ(with([](auto& s) { s.head_dim = 80; }), "it takes heads of 64 and 128, not 80");
  EXPECT_EQ(with([](auto& s) { s.kv_heads = 1; }), "it takes up to 8 heads for each key head, not 16 for 1");
  EXPECT_EQ(with([](auto& s) { s.keys = 32769; }), "it takes up to 32768 keys, not 32769");
  EXPECT_EQ(with([](auto& s) { s.keys = 4096; }),
            "4 texts of 4096 keys take 16 rounds of keys, one after the other; accepted: 8, or one text");
  EXPECT_EQ(with([](auto& s) { s.keys = 32768, s.texts = 1; }), "");
  EXPECT_EQ(with([](auto& s) { s.keys = 1 << 20, s.allowed = {.prefix_end = 4, .begin = -1023, .end = 1}; }), "");
  EXPECT_EQ(with([](auto& s) { s.texts = 65536; }), "it takes up to 65535 texts and key heads, not 65536 and 8");
}

}  // namespace
}  // namespace stof
