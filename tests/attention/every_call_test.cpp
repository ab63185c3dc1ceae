// SPDX-License-Identifier: Apache-2.0
// What a call may have beside its mask and its lengths, by every kernel with each of its tiles and splits and in every
// storage type: values that lie otherwise than keys, a scale of its own, no logarithms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "tests/attention/devices.h"
#include "tests/attention/every_plan.h"
#include "tests/attention/expect_attention.h"

namespace stof {
namespace {

struct Form {
  Batch batch;
  std::int64_t more_keys;
  const char* mask;
  std::int64_t page_size = 0;
};
// Few queries are decode_attention's; of 900 keys are split.
const Form kForms[] = {
    {{"equal", BatchForm::heads_first, {150, 150}}, 37, "causal"},
    {{"one", BatchForm::rows_first, {150}}, 37, "dilated(12,3)"},
    {{"ragged", BatchForm::rows_first, {130, 0, 65, 1}}, 37, "!window(70) & causal"},
    {{"packed", BatchForm::packed, {130, 5, 64, 0, 30}}, 0, "causal & window(20)"},
    {{"long", BatchForm::heads_first, {900}}, 0, "window(20) | global(3)"},
    {{"few", BatchForm::rows_first, {3, 1, 2}}, 330, "causal"},
    {{"pages", BatchForm::heads_first, {130, 65}}, 37, "causal", 32},
    {{"few in pages", BatchForm::rows_first, {3, 1, 2}}, 330, "causal & window(70)", 16},
    {{"window in pages", BatchForm::packed, {70, 64, 0, 18, 1}}, 51, "window(20,9)", 16},
    {{"prefix in pages", BatchForm::rows_first, {40, 3, 37}}, 33, "causal & (window(9) | sink(3))", 64}};

// How bf16 is multiplied by the CPU: by what it has, without matrix registers, without pairs either.
enum class Bf16By : std::uint8_t { best, pairs, widening };

using CallCase = std::tuple<std::string, int, DType, Bf16By>;

class EveryCall : public testing::TestWithParam<CallCase> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT(std::get<0>(GetParam()));
    if (std::get<3>(GetParam()) == Bf16By::pairs && !open_device("cpu").caps.bf16_matrix)
      GTEST_SKIP() << "pairs are the best that this processor has, or it has none";
  }

  static Device device() {
    Device device = open_device(std::get<0>(GetParam()));
    const Bf16By by = std::get<3>(GetParam());
    if (by != Bf16By::best) device.caps.bf16_matrix = false;
    if (by == Bf16By::widening) device.caps.bf16_dot = false;
    return device;
  }

  static ProblemShape shape(const Form& form) {
    const auto& [name, head_dim, dtype, by] = GetParam();
    return shape_of(form.batch, {.heads = 2, .kv_heads = 1, .head_dim = head_dim, .dtype = dtype}, form.more_keys, 0,
                    form.page_size);
  }

  // Of calls in every form none is left out but where it has no instance of the head dimension.
  static std::set<std::string> kernels() {
    const Device here = device();
    std::set<std::string> names;
    for (const AttentionKernel& kernel : here.backend->attention)
      if (is_written_for(here, kernel.name)) names.emplace(kernel.name);
    if (std::get<1>(GetParam()) > 64) names.erase("gather_attention");
    return names;
  }

  // Adds to `ran` the kernels that there were.
  static void expect_definition(const Problem& problem, const Form& form, const std::string& what,
                                std::set<std::string>& ran) {
    const Mask mask = parse(form.mask);
    const auto expect_view = [&](const View& view) {
      const int runs = run_every_plan(device(), view, problem, [&](const std::string& plan) {
        ran.insert(plan.substr(0, plan.find(' ')));
        ASSERT_EQ(difference_from_definition(problem, mask), "") << what << ", " << form.batch.name << ", " << plan;
      });
      EXPECT_GE(runs, 2) << what << ", " << form.batch.name;
    };
    expect_view(plain_view(mask, problem.what().shape));
    if (HasFatalFailure() || form.page_size > 0) return;  // pages have no residue classes
    if (const std::optional<View> by_residue = view_by_residue(mask, problem.what().shape)) expect_view(*by_residue);
  }

  // Of every form, as `change` makes it.
  template <class Change>
  static void expect_every_form(const std::string& name, const Change& change) {
    std::set<std::string> ran;
    for (const Form& form : kForms) {
      ProblemShape what = shape(form);
      change(what);
      expect_definition(Problem(what, 5), form, name, ran);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(ran, kernels()) << name;
  }
};

TEST_P(EveryCall, EqualsTheDefinitionWhereValuesLieOtherwiseThanKeys) {
  expect_every_form("values apart", [](ProblemShape& what) {
    what.values_apart = true;
    what.shape.heads = 4, what.shape.kv_heads = 2;
  });
}

TEST_P(EveryCall, EqualsTheDefinitionWithoutLogarithms) {
  expect_every_form("no lse", [](ProblemShape& what) { what.without_lse = true; });
}

// One that is not above 0 is accepted: the keys that a query is furthest from weigh most, or all alike.
TEST_P(EveryCall, EqualsTheDefinitionOfAnyScale) {
  for (const float scale : {0.4f, 0.f, -0.3f}) {
    expect_every_form(fmt::format("scale {}", scale), [&](ProblemShape& what) { what.scale = scale; });
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryCall, EqualsTheDefinitionWhereScoresAreScaledAndCapped) {
  std::set<std::string> ran;
  for (const float scale : {0.4f, -0.3f}) {
    ProblemShape what = shape(kForms[2]);
    what.scale = scale, what.softcap = 6, what.shape.capped = true;
    expect_definition(Problem(what, 5), kForms[2], fmt::format("scale {}, capped", scale), ran);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(ran.size(), 2u);
}

// Above what tiles of 16 bits take; the queries are as small as to leave ordinary scores.
TEST_P(EveryCall, EqualsTheDefinitionOfALargeScale) {
  constexpr float kScale = 1 << 17, kSmall = 1.f / (1 << 20);
  std::set<std::string> ran;
  for (const Form& form : {kForms[0], kForms[5]}) {
    ProblemShape what = shape(form);
    what.scale = kScale;
    const Problem problem(what, 5);
    for (const AttentionItem& item : problem.items())
      for (std::int64_t head = 0; head < what.shape.heads; ++head)
        for (std::int64_t row = 0; row < item.queries; ++row)
          for (std::int64_t c = 0; c < what.shape.head_dim; ++c)
            problem.set(problem.q, item.q, head, row, c, kSmall * problem.get(problem.q, item.q, head, row, c));
    expect_definition(problem, form, "large scale", ran);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(ran.size(), 2u);
}

std::string name_of_case(const testing::TestParamInfo<CallCase>& the) {
  const auto& [device, head_dim, dtype, by] = the.param;
  constexpr std::array<const char*, 3> kBy = {"", "_pairs", "_widened"};
  return fmt::format("d{}_{}{}", head_dim, name_of(dtype), kBy[static_cast<std::size_t>(by)]);
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryCall,
                         testing::Values(CallCase{"cpu", 24, DType::f32, Bf16By::best},
                                         CallCase{"cpu", 24, DType::f16, Bf16By::best},
                                         CallCase{"cpu", 32, DType::bf16, Bf16By::best},
                                         CallCase{"cpu", 32, DType::bf16, Bf16By::pairs},
                                         CallCase{"cpu", 32, DType::bf16, Bf16By::widening}),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cuda, EveryCall,
                         testing::Combine(testing::Values("cuda"), testing::Values(64, 72, 128, 256),
                                          testing::Values(DType::f16, DType::bf16), testing::Values(Bf16By::best)),
                         name_of_case);

}  // namespace
}  // namespace stof
