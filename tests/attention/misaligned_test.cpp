// SPDX-License-Identifier: Apache-2.0
// Tensors that begin an element past an aligned address: the copy engine cannot read them, and the plan says what does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/attention/planned.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

const FirstElements kFirst[] = {{.q = 1}, {.k = 1}, {.v = 1}, {.out = 1}, {.q = 3, .k = 5, .v = 7, .out = 1}};

class Misaligned : public testing::TestWithParam<std::tuple<std::string, int, DType>> {
 protected:
  void SetUp() override { STOF_SKIP_WITHOUT(std::get<0>(GetParam())); }

  static ProblemShape shape(BatchForm form, std::int64_t queries) {
    return {.shape = {.batch = 2,
                      .heads = 4,
                      .kv_heads = 2,
                      .queries = queries,
                      .keys = 150,
                      .head_dim = std::get<1>(GetParam()),
                      .dtype = std::get<2>(GetParam())},
            .form = form,
            .q_lengths = {},
            .kv_lengths = {}};
  }

  // Every kernel that takes the shape.
  static int expect_definition(ProblemShape what) {
    const Device device = open_device(std::get<0>(GetParam()));
    const Mask mask = parse("causal & window(60)");
    int kernels = 0;
    for (const AttentionKernel& kernel : device.backend->attention) {
      if (kernel.refuses(problem_of(plain_view(mask, what.shape), device), device.caps)) continue;
      const Attention attention(mask, what.shape, device, {.kernel = std::string(kernel.name)});
      if (device.backend->memory != nullptr && kernel.name != "row_attention") {
        EXPECT_NE(attention.plan().reason.find("tensors off 16 bytes"), std::string::npos) << attention.plan().reason;
      }
      for (const FirstElements& first : kFirst) {
        what.first = first;
        const Problem problem(what, 4);
        run_on(device, attention, problem);
        EXPECT_EQ(difference_from_definition(problem, mask), "")
            << kernel.name << " from " << first.q << first.k << first.v << first.out;
      }
      ++kernels;
    }
    return kernels;
  }
};

TEST_P(Misaligned, TensorsEqualTheDefinition) {
  for (const BatchForm form : {BatchForm::heads_first, BatchForm::rows_first, BatchForm::packed})
    EXPECT_GE(expect_definition(shape(form, 150)), 2);
}

TEST_P(Misaligned, FewQueriesInRowsAndPagesEqualTheDefinition) {
  ProblemShape what = shape(BatchForm::rows_first, 3);
  EXPECT_GE(expect_definition(what), 2);
  what.page_size = 32;
  EXPECT_GE(expect_definition(what), 2);
}

std::string name_of_case(const testing::TestParamInfo<Misaligned::ParamType>& the) {
  return fmt::format("{}_d{}_{}", std::get<0>(the.param), std::get<1>(the.param), name_of(std::get<2>(the.param)));
}

INSTANTIATE_TEST_SUITE_P(Cpu, Misaligned,
                         testing::Combine(testing::Values("cpu"), testing::Values(64),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, Misaligned,
                         testing::Combine(testing::Values("cuda"), testing::Values(64, 128, 256),
                                          testing::Values(DType::f16, DType::bf16)),
                         name_of_case);

}  // namespace
}  // namespace stof
