// SPDX-License-Identifier: Apache-2.0
// Which program a call gets by the plans that were kept, and what becomes of one that cannot be made.
#include "src/runtime/programs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <utility>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/fuse.h"
#include "src/fusion/work.h"
#include "src/graph/build.h"
#include "src/graph/print.h"
#include "src/graph/simplify.h"
#include "src/runtime/model_weights.h"
#include "tests/expect_error.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/families.h"
#include "tests/runtime/held_planner.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_decoder.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

bool& memory_is_full() {
  static bool full = false;
  return full;
}

// Where one is set, whoever packs weights waits there.
std::latch*& packing() {
  static std::latch* begun = nullptr;
  return begun;
}
std::atomic<bool>& may_pack() {
  static std::atomic<bool> may = true;
  return may;
}
void wait_to_pack() {
  while (!may_pack()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

const Backend& filling_backend() {
  static const Backend backend = [] {
    Backend made = cpu_backend;
    made.matmul.pack = [](const LinearSpec& spec) {
      if (memory_is_full()) fail(ErrorKind::device, "out of memory: 1000 bytes wanted");
      if (std::latch* const begun = std::exchange(packing(), nullptr)) {
        begun->count_down();
        wait_to_pack();
      }
      return cpu_backend.matmul.pack(spec);
    };
    return made;
  }();
  return backend;
}

// With a kernel for each setting, of which one does not compile; the others take memory.
const Backend& compiling_backend() {
  static const Backend backend = [] {
    Backend made = norming_backend();
    made.matmul.prepare = [](const PackedLinear&, const MatmulSetting& setting) {
      if (setting == right_setting()) fail(ErrorKind::unsupported, "the kernel does not compile for sm_90a");
      if (memory_is_full()) fail(ErrorKind::device, "out of memory: 1000 bytes wanted");
    };
    return made;
  }();
  return backend;
}

class ProgramsTest : public ::testing::Test {
 protected:
  ProgramsTest() { device_.backend = &filling_backend(); }
  ~ProgramsTest() override { memory_is_full() = false; }

  void keep(const Scheme& scheme, const std::vector<PlannedWork>& works = {}) const {
    keep_of(graph_, scheme, works, false);
  }
  void keep_of(const Graph& graph, const Scheme& scheme, const std::vector<PlannedWork>& works, bool keeps_keys) const {
    const CostContext call{&device_, DType::f32, bucket_.rows, bucket_.texts, bucket_.longest};
    PlanKey key = plan_key(graph, {}, call, keeps_keys);
    key.weights = weights_fingerprint(graph);
    ASSERT_TRUE(PlanCache({.folder = folder_.path()})
                    .publish({.key = key,
                              .model = "small",
                              .mask = "all",
                              .scheme = scheme,
                              .origin = "tuned",
                              .works = works,
                              .confirmed = {},
                              .commit = {},
                              .when = {}}));
  }
  ProgramsOptions options() const {
    return {
        .program = {.device = device_, .longest = 96},
        .mask = {},
        .plans = {.folder = folder_.path(), .log = [this](std::string_view message) { said_.emplace_back(message); }}};
  }
  Programs programs() const { return {graph_, options()}; }

  TemporaryFolder folder_;
  mutable std::vector<std::string> said_;
  Device device_ = open_device("cpu");
  Model model_ = small_bert();
  Graph graph_ = simplify(build_bert(model_));
  Blocks blocks_{graph_, {&device_, DType::f32}};
  Bucket bucket_ = bucket_of({16, 1, 16}, 96);
};

// Memory may be short for a while: calls go on by what is there, those of other sizes get their own later.
TEST_F(ProgramsTest, AProgramThatCannotBeMadeLeavesNothingBehind) {
  keep(detached_scheme(blocks_));
  const Programs programs = this->programs();
  const std::int64_t bytes = programs.arena_bytes(16), plans = programs.plans_made();
  memory_is_full() = true;
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_.front().starts_with(
      "plans: the plan of this model is not used: out of memory: 1000 bytes wanted; the weights need "))
      << said_.front();
  EXPECT_EQ(programs.count(), 1U);
  EXPECT_EQ(programs.arena_bytes(16), bytes);
  EXPECT_EQ(programs.plans_made(), plans);
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(said_.size(), 1U);
  EXPECT_THROW(this->programs(), Error);  // nothing is there to fall back to
  memory_is_full() = false;
  bucket_ = bucket_of({32, 1, 32}, 96);
  keep(detached_scheme(blocks_));
  EXPECT_NE(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(programs.count(), 2U);
}

// That it does not is found out by the compiler alone.
TEST_F(ProgramsTest, APlanWhoseKernelDoesNotCompileIsNotUsed) {
  device_.backend = &compiling_backend();
  keep(default_scheme(blocks_), {{.work = "linear 24>72", .setting = text_of(right_setting()), .count = 2}});
  const Programs programs = this->programs();
  EXPECT_TRUE(programs.plan_of(bucket_).kept);
  const Program& program = programs.of(bucket_);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_.front(), "plans: the plan of this model is not used: the kernel does not compile for sm_90a");
  EXPECT_NE(&program, &programs.by_default());  // the analytical one
  EXPECT_EQ(&programs.of(bucket_), &program);
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(ProgramsTest, WithoutMemoryForThePredictedPlanCallsRunByTheDefaultOne) {
  device_.backend = &compiling_backend();
  const Programs programs = this->programs();
  memory_is_full() = true;
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_.front().starts_with(
      "plans: calls of 16 rows run by the default plan: out of memory: 1000 bytes wanted; the weights need "))
      << said_.front();
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(said_.size(), 1U);
}

// What others hold and do not need is had first; the default program cannot be helped, as there is nobody else yet.
TEST_F(ProgramsTest, AreMadeWithTheMemoryThatOthersGiveUp) {
  keep(detached_scheme(blocks_));
  int asked = 0;
  bool helps = false;
  ProgramsOptions options = this->options();
  options.make_room = [&] {
    ++asked;
    if (helps) memory_is_full() = false;
    return helps;
  };
  memory_is_full() = true;
  EXPECT_THROW(Programs(graph_, options), Error);
  EXPECT_EQ(asked, 0);
  memory_is_full() = false;
  const Programs programs(graph_, options), later(graph_, options);
  memory_is_full() = true;
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(std::exchange(said_, {}).size(), 1U);
  helps = true;
  EXPECT_NE(&later.of(bucket_), &later.by_default());
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(said_.empty());
}

// Who is told of a size may ask for another one.
TEST_F(ProgramsTest, AreHadByWhoIsToldOfThem) {
  keep(detached_scheme(blocks_));
  ProgramsOptions options = this->options();
  const Programs* programs = nullptr;
  const Program* other = nullptr;
  options.plans.log = [&](std::string_view message) {
    said_.emplace_back(message);
    other = &programs->of(bucket_of({32, 1, 32}, 96));
  };
  const Programs made(graph_, options);
  programs = &made;
  memory_is_full() = true;
  std::atomic<bool> done = false;
  std::thread asking([&] {
    made.of(bucket_);
    done = true;
  });
  for (int i = 0; i < 1000 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(done);
  asking.join();
  EXPECT_EQ(other, &made.by_default());
  EXPECT_EQ(said_.size(), 1U);
}

// What multiplies rows of one call and scores of the last ones is in the settings of a call that wants all of them.
TEST_F(ProgramsTest, PromptsKeepKeysInOrderAndLeaveScoresToTheBackend) {
  device_.backend = &norming_backend();
  const Model decoder = small_decoder({4, 2, 64, false});
  const Programs programs(simplify(build_graph(decoder, GraphResult::logits)),
                          {.program = {.device = device_, .longest = kLongest}});
  const auto settles = [](const Program& program, std::string_view work) {
    return std::ranges::any_of(program.options().settings,
                               [&](const auto& setting) { return setting.first.find(work) != std::string::npos; });
  };
  const Program &any = programs.of(bucket_), &prompts = programs.of_prompts(bucket_);
  EXPECT_TRUE(settles(any, "96>800"));
  EXPECT_TRUE(settles(any, "rope"));
  EXPECT_TRUE(settles(prompts, "96>512"));
  EXPECT_FALSE(settles(prompts, "96>800"));
  EXPECT_FALSE(settles(prompts, "rope"));
  EXPECT_EQ(&programs.of_prompts(bucket_), &prompts);
  device_.backend = &filling_backend();  // has no settings
  const Programs plain = this->programs();
  EXPECT_EQ(&plain.of_prompts(bucket_), &plain.by_default());
}

// What is measured has no scores, and is found for the prompts of every family; other calls leave it alone.
TEST_F(ProgramsTest, PromptsRunByThePlanThatWasTunedForThem) {
  device_.backend = &norming_backend();
  for (const char* family :
       {"gpt2", "llama", "llama_with_biases", "mistral", "qwen2", "qwen3", "phi3", "phi4", "gemma2", "gemma3"}) {
    SCOPED_TRACE(family);
    const Model model = read_model(family_folder(family));
    const Graph scores = simplify(build_graph(model, GraphResult::logits)), hidden = simplify(build_graph(model));
    EXPECT_EQ(to_text(without_logits(scores)), to_text(hidden));
    const Blocks blocks(hidden, {.device = &device_, .dtype = DType::f32, .keeps_keys = true});
    for (const Scheme& scheme : {detached_scheme(blocks), default_scheme(blocks)}) {
      const Graph fused = fuse(blocks, scheme);
      const auto product = std::ranges::find_if(fused.nodes, [](const Node& node) {
        return std::holds_alternative<op::Linear>(node.op) || std::holds_alternative<op::MatMul>(node.op);
      });
      const std::string work = work_text(fused, *product);
      keep_of(hidden, scheme, {{.work = work, .setting = text_of(right_setting()), .count = 1}}, true);
      const Programs programs(scores, options());
      const Program& prompts = programs.of_prompts(bucket_);
      EXPECT_EQ(said_, std::vector<std::string>{});
      ASSERT_EQ(prompts.options().settings.size(), 1U);
      EXPECT_EQ(prompts.options().settings.at(work), right_setting());
      EXPECT_EQ(prompts.steps(), fused.nodes.size() + 1);
      EXPECT_FALSE(programs.plan_of(bucket_).kept);
    }
  }
}

// An array over positions is as long as the longest text, and a call's are shorter.
TEST_F(ProgramsTest, PredictPlansUnderArraysOverPositions) {
  device_.backend = &norming_backend();
  const Model decoder = small_decoder({4, 2, 64, false});
  const Programs programs(
      simplify(build_graph(decoder, GraphResult::logits)),
      {.program = {.device = device_, .longest = kLongest}, .mask = parse("documents([0,5,30,150])")});
  EXPECT_NE(&programs.of(bucket_), &programs.by_default());
  EXPECT_NE(&programs.of_prompts(bucket_), &programs.by_default());
}

TEST_F(ProgramsTest, CallsOfKnownSizesDoNotWaitForWhatIsMade) {
  keep(detached_scheme(blocks_));
  const Programs programs = this->programs();
  const Bucket known = bucket_of({32, 1, 32}, 96);
  EXPECT_EQ(&programs.of(known), &programs.by_default());
  std::latch begun(1);
  packing() = &begun;
  may_pack() = false;
  std::atomic<bool> is_made = false;
  std::thread maker([&] {
    programs.of(bucket_);
    is_made = true;
  });
  std::thread release_late([&] {  // a call that waits would wait for ever
    for (int i = 0; i < 1000 && !may_pack(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    may_pack() = true;
  });
  begun.wait();
  EXPECT_EQ(&programs.of(known), &programs.by_default());
  EXPECT_EQ(programs.count(), 1U);
  EXPECT_FALSE(is_made);
  may_pack() = true;
  maker.join();
  release_late.join();
  EXPECT_TRUE(is_made);
  EXPECT_EQ(programs.count(), 2U);
}

// Nor does whoever counts plans.
TEST_F(ProgramsTest, CallsDoNotWaitWherePlansAreMadeAndCounted) {
  const Backend backend = HeldPlanner::backend(cpu_backend);
  device_.backend = &backend;
  const Programs programs = this->programs();
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  const std::int64_t plans = programs.plans_made();
  HeldPlanner planner([&] { programs.by_default().plans(4, 64); });
  std::thread counting([&] { EXPECT_EQ(programs.plans_made(), plans); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // while it would hold what calls want
  EXPECT_EQ(&programs.of(bucket_), &programs.by_default());
  EXPECT_EQ(&programs.by_default().plans(1, 96), &programs.by_default().plans(1, 96));
  EXPECT_GT(programs.arena_bytes(16), 0);
  counting.join();
  EXPECT_TRUE(planner.release());
  EXPECT_EQ(programs.plans_made(), plans + 1);
}

// Not of the first size of call alone.
TEST_F(ProgramsTest, WhyAPlanIsNotUsedIsToldOfTheFirstThatThereIs) {
  const Bucket other = std::exchange(bucket_, bucket_of({32, 1, 32}, 96));
  keep(detached_scheme(blocks_));
  device_.caps.name = "Another";
  const Programs programs = this->programs();
  programs.of(other);
  EXPECT_TRUE(said_.empty());
  programs.of(bucket_);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_.front().find("is not used: device is '"), std::string::npos) << said_.front();
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
