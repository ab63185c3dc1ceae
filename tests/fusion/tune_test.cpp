// SPDX-License-Identifier: Apache-2.0
// Tuning small models, really measured: on the CPU, and on a device with settings and norms that the host plays.
#include "src/runtime/tune.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "src/base/append_file.h"
#include "src/codegen/compiler.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_cache.h"
#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/programs.h"
#include "src/tensor/convert.h"
#include "src/tensor/npy.h"
#include "tests/expect_error.h"
#include "tests/fusion/norming_device.h"
#include "tests/runtime/recording_device.h"
#include "tests/runtime/small_bert.h"
#include "tests/runtime/small_modernbert.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

class Tune : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Model model_ = small_bert(2);
  std::vector<std::string> said_;

  TuneOptions options(const Device& device) {
    return {.device = device,
            .texts = 2,
            .longest = 16,
            .seconds_a_time = 0.0005,
            .confirming_seconds = 0.005,
            .folder = folder_.path(),
            .log = [this](std::string_view message) { said_.emplace_back(message); }};
  }
  float* first_weight(const std::string& name) { return const_cast<float*>(model_.weights.at(name).as<float>()); }
  Programs programs_on(const Device& device) {
    return {simplify(build_bert(model_)),
            {.program = {.device = device, .longest = model_.config.max_positions},
             .mask = {},
             .plans = {.folder = folder_.path(),
                       .log = [this](std::string_view message) { said_.emplace_back(message); }}}};
  }
};

TEST_F(Tune, OnTheCpuAPlanIsKeptAndUsed) {
  const TuneResult first = tune(model_, options(open_device("cpu")));
  EXPECT_TRUE(first.kept);
  EXPECT_TRUE(first.search.finished);
  EXPECT_GT(first.measured, 5);
  EXPECT_EQ(first.wrong, 0);
  ASSERT_GE(first.plan.confirmed.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(first.plan.confirmed[i].what, (std::array{"default", "analytical", "tuned"}[i]));
  for (const ConfirmedTime& time : first.plan.confirmed) EXPECT_LE(time.error, 1e-4) << time.what;
  const Programs programs = programs_on(open_device("cpu"));
  EXPECT_EQ(programs.plan_of(first.bucket).origin, first.plan.origin);
  EXPECT_EQ(programs.plan_of(first.bucket).scheme, first.plan.scheme);
  EXPECT_TRUE(programs.plan_of(first.bucket).kept);
  EXPECT_EQ(programs.plan_of({512, 4, 128}).origin, "default");  // of another size
  EXPECT_FALSE(programs.plan_of({512, 4, 128}).kept);
}

// The comparison is for those who doubt the plan; the search is not charged for it.
TEST_F(Tune, AComparisonWithF32TakesTimeOfItsOwn) {
  TuneOptions compared = options(open_device("cpu"));
  compared.against_f32 = true;
  const auto begin = std::chrono::steady_clock::now();
  const TuneResult result = tune(model_, compared);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(result.f32_error);
  EXPECT_LE(*result.f32_error, 1e-4);
  EXPECT_GT(result.f32_seconds, 0);
  EXPECT_GT(result.seconds, 0);
  EXPECT_LE(result.seconds + result.f32_seconds, elapsed);
  EXPECT_EQ(tune(model_, options(open_device("cpu"))).f32_seconds, 0);
}

TEST_F(Tune, NothingIsMeasuredAgain) {
  const TuneResult first = tune(model_, options(open_device("cpu")));
  const TuneResult again = tune(model_, options(open_device("cpu")));
  EXPECT_EQ(again.measured, 0);
  EXPECT_EQ(again.remembered, first.measured);
  EXPECT_EQ(again.search.scheme, first.search.scheme);
  EXPECT_EQ(again.search.us, first.search.us);
}

TEST_F(Tune, WhatIsAskedForAgainIsMeasuredAndKept) {
  const TuneResult first = tune(model_, options(open_device("cpu")));
  TuneOptions asked = options(open_device("cpu"));
  asked.again = true;
  const TuneResult again = tune(model_, asked);
  EXPECT_GE(again.measured, 5);
  EXPECT_EQ(again.remembered, 0);
  const TuneResult after = tune(model_, options(open_device("cpu")));
  EXPECT_EQ(after.measured, 0);
  EXPECT_EQ(after.search.us, again.search.us);
  EXPECT_NE(after.search.us, first.search.us);
}

TEST_F(Tune, OutOfTimeItGoesOnLater) {
  TuneOptions hurried = options(open_device("cpu"));
  hurried.budget_seconds = 1e-6;
  const TuneResult first = tune(model_, hurried);
  EXPECT_FALSE(first.search.finished);
  EXPECT_GT(first.measured, 0);
  ASSERT_EQ(first.plan.confirmed.size(), 1U);  // nothing runs end to end but what is kept, and that once
  EXPECT_EQ(first.plan.confirmed.front().runs, 1);
  EXPECT_TRUE(first.kept);
  const TuneResult rest = tune(model_, options(open_device("cpu")));
  EXPECT_TRUE(rest.search.finished);
  EXPECT_EQ(rest.remembered, first.measured);
  EXPECT_GT(rest.measured, 0);
}

// A compiler of another day may take it, and a kernel may have been mended.
TEST_F(Tune, AKernelThatDoesNotCompileIsTriedAgain) {
  static const Backend refusing = [] {
    Backend made = norming_backend();
    made.matmul.prepare = [](const PackedLinear&, const MatmulSetting& setting) {
      if (setting == right_setting()) fail(ErrorKind::unsupported, "the kernel does not compile");
    };
    return made;
  }();
  Device device = norming_device();
  device.backend = &refusing;
  EXPECT_GT(tune(model_, options(device)).wrong, 0);
  const TuneResult healed = tune(model_, options(norming_device()));
  EXPECT_GT(healed.measured, 0);
  EXPECT_GT(healed.remembered, 0);  // of the same scope
}

TEST_F(Tune, TimesOfOtherKernelsAreNotThese) {
  static const Backend with_cuda = [] {
    Backend made = norming_backend();
    made.versions = [] { return SoftwareVersions{.driver = "1", .cuda = "2", .blas = "3"}; };
    return made;
  }();
  Device device = norming_device();
  device.backend = &with_cuda;
  const TuneResult result = tune(model_, options(device));
  const PlanKey& key = result.plan.key;
  int logs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    if (file.path().extension() != ".times") continue;
    ++logs;
    const std::string line = whole_lines(file.path()).at(0);
    EXPECT_NE(line.find(", compiler " + machine_compiler().version() + ", kernels " + kernels_fingerprint() + "\""),
              std::string::npos)
        << line;
  }
  EXPECT_EQ(logs, 1);
  EXPECT_EQ(key.cuda, "2");
}

// It may be better than what there was time to find.
TEST_F(Tune, OutOfTimeThePlanOfBeforeIsComparedWith) {
  TuneOptions hurried = options(open_device("cpu"));
  hurried.budget_seconds = 1e-6;
  TuneResult before = tune(model_, hurried);
  const Blocks blocks(simplify(build_bert(model_)));
  before.plan.scheme = detached_scheme(blocks);
  const PlanCache cache({.folder = folder_.path()});
  ASSERT_TRUE(cache.publish(before.plan));
  const TuneResult after = tune(model_, hurried);
  ASSERT_EQ(after.plan.confirmed.size(), 2U);
  EXPECT_EQ(after.plan.confirmed.back().what, "kept");
  EXPECT_EQ(after.plan.confirmed.back().scheme, before.plan.scheme.text());
  for (const ConfirmedTime& time : after.plan.confirmed) EXPECT_GE(time.runs, 5) << time.what;
  const bool stays = after.plan.confirmed[1].us < 0.995 * after.plan.confirmed[0].us;
  EXPECT_EQ(after.plan.origin, stays ? "kept" : "tuned");
  before.plan.scheme = {{"0"}};
  ASSERT_TRUE(cache.publish(before.plan));
  said_.clear();
  EXPECT_EQ(tune(model_, hurried).plan.confirmed.size(), 1U);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(said_.front().starts_with("plans: the plan of before is not compared: ")) << said_.front();
}

TEST_F(Tune, AWrongSettingIsFoundOutAndNeverWins) {
  const TuneResult result = tune(model_, options(norming_device()));
  EXPECT_GT(result.wrong, 0);
  ASSERT_FALSE(result.search.settings.empty());
  for (const auto& [work, setting] : result.search.settings) EXPECT_NE(setting, text_of(wrong_setting())) << work;
}

TEST_F(Tune, ForcedNormsOfOperandsAreRightEndToEnd) {
  TuneOptions forced = options(norming_device());
  forced.scheme = "001111100001110000";
  const TuneResult result = tune(model_, forced);
  EXPECT_EQ(result.plan.origin, "forced");
  EXPECT_EQ(result.plan.scheme.bits[1], *forced.scheme);
  EXPECT_LE(result.plan.confirmed.back().error, 1e-5);
  const Programs programs = programs_on(norming_device());
  EXPECT_EQ(programs.plan_of(result.bucket).settings, result.search.settings);
  EXPECT_NE(&programs.of(result.bucket), &programs.by_default());
  EXPECT_EQ(programs.count(), 2U);
}

// Of a machine that had a compiler, where there is none now.
TEST_F(Tune, APlanOfKernelsThatCannotBeMadeIsNotUsed) {
  TuneOptions forced = options(norming_device());
  forced.scheme = "001111100001110000";
  TuneResult result = tune(model_, forced);
  for (PlannedWork& work : result.plan.works)  // whatever was the fastest
    if (!work.setting.empty()) work.setting = text_of(right_setting());
  ASSERT_TRUE(PlanCache({.folder = folder_.path()}).publish(result.plan));
  ASSERT_TRUE(programs_on(norming_device()).plan_of(result.bucket).kept);
  static const Backend without = [] {
    Backend made = norming_backend();
    made.why_not_compiled = [](const Device&) { return std::string("run-time compilation is off"); };
    made.matmul.is_built_in = [](const LinearSpec&, std::int64_t, const MatmulSetting& setting) {
      return setting.kernel == MatmulSetting::Kernel::cublaslt;
    };
    return made;
  }();
  Device device = norming_device();
  device.backend = &without;
  said_.clear();
  const ChosenPlan plan = programs_on(device).plan_of(result.bucket);
  EXPECT_FALSE(plan.kept);
  EXPECT_EQ(plan.origin, "analytical");
  for (const auto& [work, setting] : plan.settings) EXPECT_EQ(setting, "cublaslt") << work;
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_.front().find("plans: the plan of this model is not used: '"), 0U) << said_.front();
  EXPECT_NE(said_.front().find("' is not part of this build and cannot be compiled: run-time compilation is off"),
            std::string::npos)
      << said_.front();
}

// Measured by itself, a matmul that turns heads is compared with the operators that it stands for.
TEST_F(Tune, HeadsThatAMatmulTurnsAreRight) {
  const Model model = small_modernbert();
  const Graph graph = simplify(build_graph(model));
  TuneOptions forced = options(norming_device());
  const Blocks blocks(graph, {&forced.device, DType::f32});
  forced.scheme = scheme_of_templates(blocks, std::vector<std::string_view>{"product_rope"}).text();
  const TuneResult result = tune(model, forced);
  int turned = 0;
  for (const auto& [work, times] : result.search.tried)
    if (work.find("rope=(") != std::string::npos) {
      ++turned;
      ASSERT_FALSE(times.empty()) << work;
      for (const SettingTime& time : times) EXPECT_NE(time.setting, text_of(wrong_setting())) << work;
    }
  EXPECT_EQ(turned, 2);  // for two kinds of layers
  EXPECT_EQ(result.plan.confirmed.back().what, "forced");
  EXPECT_LE(result.plan.confirmed.back().error, 1e-4);
}

// As it would be after an update of the library that has lost a kernel.
TEST_F(Tune, APlanThatNamesWhatThereIsNotIsNotUsed) {
  TuneResult result = tune(model_, options(norming_device()));
  result.plan.origin = "tuned";
  result.plan.works = {
      {.work = "linear 24>72", .setting = text_of(tile_of(256)), .count = 2, .us = 1, .spread = 0, .runs = 1}};
  result.plan.scheme = default_scheme(Blocks(simplify(build_bert(model_))));
  ASSERT_TRUE(PlanCache({.folder = folder_.path()}).publish(result.plan));
  said_.clear();
  EXPECT_EQ(programs_on(norming_device()).plan_of(result.bucket).origin, "analytical");
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0],
            "plans: the plan of this model is not used: 'linear 24>72': there is no kernel for 'wgmma 256x64 "
            "k64 s2 w1 t1 split1'");
}

// More texts than tokens would fill, and texts whose length a mask fixes while there are three of them.
TEST_F(Tune, ACallIsTimedAsItWasAsked) {
  for (const Device& device : {open_device("cpu"), recording_device()}) {
    TuneOptions asked = options(device);
    asked.folder.clear();
    asked.texts = 33, asked.longest = 1;
    EXPECT_GT(tune(model_, asked).measured, 5);
    asked.texts = 3, asked.longest = 96;
    asked.mask = parse("natten(8,12,3,3)");
    EXPECT_EQ(tune(model_, asked).wrong, 0);
  }
}

// Of one bucket, but not of the same texts.
TEST_F(Tune, TimesOfOtherTextsAreNotThisCalls) {
  tune(model_, options(open_device("cpu")));
  TuneOptions fewer = options(open_device("cpu"));
  fewer.longest = 15;
  const TuneResult result = tune(model_, fewer);
  EXPECT_GT(result.measured, 0);
  EXPECT_EQ(result.remembered, 0);
}

// On the host attention is planned for all positions of the model, and tables are read in the dtype of the checkpoint.
TEST_F(Tune, TimesOfOtherTablesAreNotThisModels) {
  tune(model_, options(open_device("cpu")));
  TensorView& words = model_.weights.at("embeddings.word_embeddings.weight");
  const Tensor halves = converted(words, DType::f16);
  const TensorView before = std::exchange(words, halves.view());
  EXPECT_EQ(tune(model_, options(open_device("cpu"))).remembered, 0);
  words = before;
  model_.config.max_positions = 80;
  TensorView& positions = model_.weights.at("embeddings.position_embeddings.weight");
  positions = view_of(positions.data, DType::f32, {80, 24});
  EXPECT_EQ(tune(model_, options(open_device("cpu"))).remembered, 0);
}

TEST_F(Tune, TimesOfAnotherArrayAreNotThisMasks) {
  const TemporaryFolder arrays;
  const std::filesystem::path file = arrays / "pairs.npy";
  Tensor pairs(DType::boolean, {96, 96});
  std::memset(pairs.data(), 1, pairs.bytes());
  const auto tuned = [&] {
    write_npy(file, pairs.view());
    TuneOptions masked = options(open_device("cpu"));
    masked.longest = 96;
    masked.mask = parse("bits('" + file.string() + "')");
    return tune(model_, masked);
  };
  tuned();
  EXPECT_EQ(tuned().measured, 0);
  std::memset(pairs.data(), 0, 7);
  EXPECT_EQ(tuned().measured, 1);  // attention
}

// What cannot be right is refused by name: here a checkpoint holds what is no number. Others of its sizes are tuned as
// if it had never been.
TEST_F(Tune, WhereNothingIsRightThatIsSaid) {
  float* const value = first_weight("encoder.layer.0.attention.self.query.weight");
  const float good = std::exchange(*value, std::numeric_limits<float>::quiet_NaN());
  EXPECT_ERROR(tune(model_, options(open_device("cpu"))), ErrorKind::unsupported,
               "no setting of 'linear 24>72' is right: the unfused operators compute nan, as "
               "encoder.layer.0.attention.self.query.weight holds nan; accepted: finite numbers");
  *value = good;
  const TuneResult healthy = tune(model_, options(open_device("cpu")));
  EXPECT_TRUE(healthy.kept);
  EXPECT_EQ(healthy.wrong, 0);
}

TEST_F(Tune, ANormThatIsNoNumberIsNamed) {
  *first_weight("encoder.layer.1.output.LayerNorm.weight") = std::numeric_limits<float>::infinity();
  TuneOptions unfused = options(open_device("cpu"));
  unfused.ablation.fusion = false;
  EXPECT_ERROR(tune(model_, unfused), ErrorKind::unsupported,
               "the unfused model computes inf, as encoder.layer.1.output.LayerNorm.weight holds inf; accepted: finite "
               "numbers");
}

// Times hold for any weights; what is right does not.
TEST_F(Tune, OtherWeightsAreComparedAndNotTimed) {
  const TuneResult first = tune(model_, options(norming_device()));
  *first_weight("encoder.layer.0.attention.self.query.weight") += 1;
  const TuneResult other = tune(model_, options(norming_device()));
  EXPECT_EQ(first.compared, 0);
  EXPECT_GT(other.compared, 5);
  EXPECT_EQ(other.wrong, first.wrong);
  EXPECT_EQ(other.measured, other.wrong);  // no time of those is known
  EXPECT_EQ(other.search.us, first.search.us);
  const TuneResult again = tune(model_, options(norming_device()));
  EXPECT_EQ(again.compared, 0);
  EXPECT_EQ(again.measured, 0);
}

TEST_F(Tune, EachCheckpointKeepsItsOwnPlan) {
  const TuneResult first = tune(model_, options(open_device("cpu")));
  *first_weight("encoder.layer.0.attention.self.query.weight") += 1;
  EXPECT_FALSE(programs_on(open_device("cpu")).plan_of(first.bucket).kept);
  const TuneResult other = tune(model_, options(open_device("cpu")));
  EXPECT_NE(other.plan.key.weights, first.plan.key.weights);
  EXPECT_TRUE(programs_on(open_device("cpu")).plan_of(first.bucket).kept);
  const PlanCache cache({.folder = folder_.path()});
  EXPECT_EQ(cache.find(first.plan.key), first.plan);
  EXPECT_EQ(cache.find(other.plan.key), other.plan);
}

// As a session does.
TEST_F(Tune, AMaskThatDependsOnTheTextIsRefused) {
  TuneOptions by_text = options(open_device("cpu"));
  by_text.mask = parse("where(b == 0)");
  EXPECT_ERROR(tune(model_, by_text), ErrorKind::invalid_argument,
               "mask where(b == 0): it depends on the batch index; accepted: masks that are the same for every text, "
               "since texts are regrouped");
}

TEST_F(Tune, AnotherMasksPlanIsNotUsed) {
  TuneOptions masked = options(open_device("cpu"));
  masked.mask = parse("window(3)");
  const TuneResult result = tune(model_, masked);
  EXPECT_EQ(result.plan.mask, "window(3)");
  EXPECT_EQ(programs_on(open_device("cpu")).plan_of(result.bucket).origin, "default");
}

TEST_F(Tune, AblationsKeepNothing) {
  for (const Ablation ablation :
       {Ablation{.attention = true, .fusion = false}, Ablation{.attention = false, .fusion = true},
        Ablation{.attention = false, .fusion = false}}) {
    TuneOptions part = options(open_device("cpu"));
    part.ablation = ablation;
    const TuneResult result = tune(model_, part);
    EXPECT_FALSE(result.kept);
    if (ablation.fusion) EXPECT_GE(result.plan.confirmed.size(), 3U);
    else EXPECT_EQ(result.plan.confirmed.size(), 1U);
  }
  EXPECT_TRUE(PlanCache({.folder = folder_.path()}).entries().empty());
}

TEST_F(Tune, Refusals) {
  TuneOptions bad = options(open_device("cpu"));
  bad.longest = 97;
  EXPECT_ERROR(tune(model_, bad), ErrorKind::invalid_argument,
               "2 texts of 97 tokens; accepted: 1 or more, of 1 to 96 tokens");
  bad = options(open_device("cpu"));
  bad.scheme = "001110000110001100";
  EXPECT_ERROR(tune(model_, bad), ErrorKind::invalid_argument,
               "scheme 001110000110001100: operators 2 to 4 (scores, scale, mask): attention is a segment of its own: "
               "scores, scale, mask, softmax, values");
}

}  // namespace
}  // namespace stof
