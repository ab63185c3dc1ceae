// SPDX-License-Identifier: Apache-2.0
// Keys and values that the CPU's block kernel packs once for several row-blocks: of the right head and item, of this
// call and not of the one before, and in place where there are too many.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class KeptKeys : public testing::TestWithParam<DType> {
 protected:
  static Problem make(const AttentionShape& shape, std::vector<std::int32_t> q_lengths = {},
                      std::vector<std::int32_t> kv_lengths = {}) {
    return Problem({.shape = shape,
                    .form = BatchForm::rows_first,
                    .row_padding = 8,
                    .q_lengths = q_lengths,
                    .kv_lengths = kv_lengths},
                   3);
  }
  static AttentionShape shape(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
    return {.batch = batch,
            .heads = 4,
            .kv_heads = 2,
            .queries = queries,
            .keys = keys,
            .head_dim = head_dim,
            .dtype = GetParam()};
  }
  static AttentionShape of_one_head(std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
    AttentionShape with_one = shape(1, queries, keys, head_dim);
    with_one.kv_heads = 1;
    return with_one;
  }
  static void expect_definition(const Attention& attention, const Problem& problem, const Mask& mask) {
    run_on(device(), attention, problem);
    EXPECT_EQ(difference_from_definition(problem, mask), "") << mask.text();
  }
  static Attention planned(const Problem& problem, const Mask& mask) {
    return {mask, problem.what().shape, device(), {.kernel = "block_attention"}};
  }

 private:
  static Device device() { return open_device("cpu"); }
};

// Of one item and one head of keys, so that the next call begins where the last one ended.
TEST_P(KeptKeys, AreThoseOfTheCall) {
  const Problem problem = make(of_one_head(520, 260, 24));
  const Mask mask = where("(q - k) % 5 != 1");
  const Attention attention = planned(problem, mask);
  for (int call = 0; call < 3; ++call) {  // two threads may swap their scratch from one to the next
    expect_definition(attention, problem, mask);
    for (std::int64_t key = 0; key < 260; ++key)
      for (std::int64_t c = 0; c < 24; ++c) {
        problem.set(problem.k, 0, 0, key, c, 0.5f - problem.get(problem.k, 0, 0, key, c));
        problem.set(problem.v, 0, 0, key, c, 1.5f - problem.get(problem.v, 0, 0, key, c) / 2);
      }
  }
}

TEST_P(KeptKeys, AreThoseOfTheItem) {
  const Problem problem = make(shape(3, 520, 330, 40), {520, 130, 64}, {330, 201, 117});
  expect_definition(planned(problem, all()), problem, all());
}

// 4 MB hold fewer than 2,048 keys of this size that are widened to fp32.
TEST_P(KeptKeys, MayBeMoreThanThereIsRoomFor) {
  const Problem problem = make(of_one_head(260, 2300, 256));
  expect_definition(planned(problem, all()), problem, all());
}

// What a value that is not finite takes out of the products stays among what is kept.
TEST_P(KeptKeys, KeepValuesThatAreNotFinite) {
  const Problem problem = make(shape(1, 600, 300, 24));
  problem.set(problem.v, 0, 1, 70, 3, kNan);
  const Mask mask = where("(q - k) % 5 != 1");
  run_on(open_device("cpu"), planned(problem, mask), problem);
  for (std::int64_t row = 0; row < 600; ++row)
    for (const std::int64_t head : {0, 1, 2, 3}) {
      const bool sees = head / 2 == 1 && (row + 1000 + 300 - 600 - 70) % 5 != 1;  // positions count from the last key
      ASSERT_EQ(std::isnan(problem.get(problem.out, 0, head, row, 3)), sees) << head << " " << row;
      ASSERT_FALSE(std::isnan(problem.get(problem.out, 0, head, row, 4)));
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, KeptKeys, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& the) { return std::string(name_of(the.param)); });

}  // namespace
}  // namespace stof
