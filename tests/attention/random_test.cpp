// SPDX-License-Identifier: Apache-2.0
// Random (mask, shape, dtype, strides, lengths) problems against the definition, on every kernel that takes them.
#include <gtest/gtest.h>

#include <random>

#include "stof/error.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  ProblemShape shape() {
    constexpr std::int64_t kHeadDims[] = {1, 3, 8, 16, 17, 32, 33, 40, 64, 64, 80, 128, 200, 256};
    constexpr DType kDTypes[] = {DType::f32, DType::f32, DType::f16, DType::bf16};
    ProblemShape what;
    AttentionShape& s = what.shape;
    s.batch = 1 + below(3);
    s.kv_heads = 1 + below(2);
    s.heads = s.kv_heads * (1 + below(3));
    s.head_dim = kHeadDims[below(std::size(kHeadDims))];
    const std::int64_t longest = s.head_dim > 64 ? 70 : 150;
    s.keys = 1 + below(longest);
    s.queries = below(3) == 0 ? 1 + below(longest) : below(4) == 0 ? 1 : s.keys;
    s.dtype = kDTypes[below(std::size(kDTypes))];
    what.form = static_cast<BatchForm>(below(3));
    what.row_padding = below(2) == 0 ? 0 : below(20);
    if (below(2) == 0) add_lengths(what);
    return what;
  }

 private:
  void add_lengths(ProblemShape& what) {
    const bool same = what.shape.queries == what.shape.keys;
    for (std::int64_t item = 0; item < what.shape.batch; ++item) {
      what.q_lengths.push_back(static_cast<std::int32_t>(below(what.shape.queries + 1)));
      what.kv_lengths.push_back(same ? what.q_lengths.back() : static_cast<std::int32_t>(below(what.shape.keys + 1)));
    }
  }

  std::mt19937 random_;
};

// False when the mask does not fit some item's length, which is the mask's business and tested there.
bool check_problem(unsigned seed, const Device& device, const std::string& kernel) {
  RandomProblems problems(seed);
  const ProblemShape what = problems.shape();
  const AttentionShape& s = what.shape;
  const MaskExtent extent{.queries = s.queries, .keys = s.keys, .batch = s.batch, .heads = s.heads};
  const Mask mask = RandomMask(seed, extent, what.q_lengths.empty()).expression(2);
  const Problem problem(what, seed);
  try {
    run_on(device, Attention(mask, s, device, {.kernel = kernel}), problem);
    const std::string wrong = difference_from_definition(problem, mask);
    EXPECT_EQ(wrong, "") << "seed " << seed << " " << kernel << " " << mask.text() << " B " << s.batch << " H "
                         << s.heads << "/" << s.kv_heads << " N " << s.queries << " M " << s.keys << " d " << s.head_dim
                         << " " << name_of(s.dtype) << " form " << static_cast<int>(what.form);
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::unsupported)
        << "seed " << seed << ": " << error.what();
    return false;
  }
  return true;
}

class RandomProblem : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(RandomProblem, EqualsItsDefinition) {
  const auto& [name, kernel] = GetParam();
  STOF_SKIP_WITHOUT(name);
  const Device device = open_device(name);
  const int kProblems = name == "cuda" ? 1300 : 1000;
  int checked = 0;
  for (unsigned seed = 0; checked < kProblems; ++seed) {
    ASSERT_LT(seed, 60u * static_cast<unsigned>(kProblems));
    checked += check_problem(seed, device, kernel) ? 1 : 0;
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<std::string, std::string>>& the) {
  return std::get<1>(the.param);
}

INSTANTIATE_TEST_SUITE_P(Cpu, RandomProblem,
                         testing::Combine(testing::Values("cpu"),
                                          testing::Values("auto", "block_attention", "row_attention")),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, RandomProblem,
                         testing::Combine(testing::Values("cuda"),
                                          testing::Values("auto", "stream_attention", "band_attention",
                                                          "gather_attention", "row_attention")),
                         name_of_case);

}  // namespace
}  // namespace stof
