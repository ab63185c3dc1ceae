// SPDX-License-Identifier: Apache-2.0
// Which program a call gets by the plans that were kept, and what becomes of one that cannot be made.
#include "src/runtime/programs.h"

#include <gtest/gtest.h>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/fuse.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/model_weights.h"
#include "tests/expect_error.h"
#include "tests/runtime/small_bert.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

bool& memory_is_full() {
  static bool full = false;
  return full;
}

const Backend& filling_backend() {
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.matmul.pack = [](const LinearSpec& spec) {
      if (memory_is_full()) fail(ErrorKind::device, "out of memory: 1000 bytes wanted");
      return cpu_backend.matmul.pack(spec);
    };
    return made;
  }();
  return backend;
}

class ProgramsTest : public ::testing::Test {
 protected:
  ProgramsTest() { device_.backend = &filling_backend(); }
  ~ProgramsTest() override { memory_is_full() = false; }

  void keep(const Scheme& scheme) const {
    const CostContext call{&device_, DType::f32, bucket_.rows, bucket_.texts, bucket_.longest};
    PlanKey key = plan_key(graph_, {}, call);
    key.weights = weights_fingerprint(graph_);
    ASSERT_TRUE(PlanCache({.folder = folder_.path()})
                    .publish({.key = key,
                              .model = "small",
                              .mask = "all",
                              .scheme = scheme,
                              .origin = "tuned",
                              .works = {},
                              .confirmed = {},
                              .commit = {},
                              .when = {}}));
  }
  Programs programs() const {
    return {graph_,
            {.program = {.device = device_, .longest = 96},
             .mask = {},
             .plans = {.folder = folder_.path(),
                       .log = [this](std::string_view message) { said_.emplace_back(message); }}}};
  }

  TemporaryFolder folder_;
  mutable std::vector<std::string> said_;
  Device device_ = open_device("cpu");
  Model model_ = small_bert();
  Graph graph_ = simplify(build_bert(model_));
  Blocks blocks_{graph_, {&device_, DType::f32}};
  Bucket bucket_ = bucket_of({16, 1, 16}, 96);
};

// Memory may be short for a while: other calls go on, and this one is made later.
TEST_F(ProgramsTest, AProgramThatCannotBeMadeLeavesNothingBehind) {
  keep(detached_scheme(blocks_));
  const Programs programs = this->programs();
  const std::int64_t bytes = programs.arena_bytes(16), plans = programs.plans_made();
  memory_is_full() = true;
  EXPECT_THROW(programs.of(bucket_), Error);
  EXPECT_EQ(programs.count(), 1U);
  EXPECT_EQ(programs.arena_bytes(16), bytes);
  EXPECT_EQ(programs.plans_made(), plans);
  EXPECT_THROW(programs.of(bucket_), Error);
  memory_is_full() = false;
  EXPECT_NE(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(programs.count(), 2U);
}

// What is right with the weights of one may be wrong with those of the other.
TEST_F(ProgramsTest, APlanOfACheckpointOfTheSameSizesIsNotUsed) {
  keep(detached_scheme(blocks_));
  EXPECT_TRUE(programs().plan_of(bucket_).kept);
  EXPECT_TRUE(said_.empty());
  const std::string before = weights_fingerprint(graph_);
  *const_cast<float*>(model_.weights.at("encoder.layer.0.output.dense.weight").as<float>()) += 1;
  EXPECT_EQ(programs().plan_of(bucket_).origin, "default");
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_.front().ends_with("is not used: its weights are '" + before + "'; here they are '" +
                                      weights_fingerprint(graph_) + "'"))
      << said_.front();
  keep(default_scheme(blocks_));
  EXPECT_TRUE(programs().plan_of(bucket_).kept);
  EXPECT_EQ(PlanCache({.folder = folder_.path()}).entries().size(), 2U);
}

// A plan may be written by hand: one string is for the layers.
TEST_F(ProgramsTest, ASchemeForTheLayersAloneIsWhole) {
  const Scheme whole = detached_scheme(blocks_);
  keep({{whole.bits.at(blocks_.scheme_shape().layer)}});
  const ChosenPlan plan = programs().plan_of(bucket_);
  EXPECT_TRUE(plan.kept);
  EXPECT_EQ(plan.scheme.bits.size(), whole.bits.size());
  EXPECT_NE(&programs().of(bucket_), nullptr);
}

}  // namespace
}  // namespace stof
