// SPDX-License-Identifier: Apache-2.0
// Tuning small models, really measured: on the CPU, and on a device with settings and norms that the host plays.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "src/fusion/fuse.h"
#include "src/fusion/plan_cache.h"
#include "tests/expect_error.h"
#include "tests/fusion/norming_device.h"
#include "tests/fusion/tuned_model.h"
#include "tests/runtime/small_decoder.h"
#include "tests/runtime/small_modernbert.h"

namespace stof {
namespace {

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
  EXPECT_LE(result.f32_error->all, 1e-4);
  EXPECT_LE(result.f32_error->worst_row, 1e-3);
  EXPECT_GT(result.f32_seconds, 0);
  EXPECT_GT(result.seconds, 0);
  EXPECT_LE(result.seconds + result.f32_seconds, elapsed);
  EXPECT_EQ(tune(model_, options(open_device("cpu"))).f32_seconds, 0);
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

// What a session runs without the search is one of those that run end to end, where it is another plan than the
// default.
TEST_F(Tune, WhatIsNotTunedIsTimedToo) {
  const auto times_untuned = [&](const TuneOptions& options) {
    const std::vector<ConfirmedTime> confirmed = tune(model_, options).plan.confirmed;
    return std::ranges::count(confirmed, "untuned", &ConfirmedTime::what);
  };
  const TuneOptions whole = options(norming_device());
  EXPECT_EQ(times_untuned(whole), 1);
  EXPECT_EQ(times_untuned(options(open_device("cpu"))), 0);
  TuneOptions forced = whole;
  forced.scheme = default_scheme(Blocks(simplify(build_bert(model_)))).text();
  EXPECT_EQ(times_untuned(forced), 0);
  TuneOptions without_attention = whole;
  without_attention.ablation.attention = false;
  EXPECT_EQ(times_untuned(without_attention), 0);
}

// Found by a session that generates, for its prompts; by no other call.
TEST_F(Tune, PromptsHaveAPlanOfTheirOwn) {
  model_ = small_decoder({4, 2, 64, false});
  TuneOptions of_prompts = options(norming_device());
  of_prompts.prompts = true;
  const TuneResult found = tune(model_, of_prompts);
  EXPECT_TRUE(found.kept);
  for (const PlannedWork& work : found.plan.works) EXPECT_EQ(work.work.find("rope=("), std::string::npos) << work.work;
  of_prompts.scheme = found.plan.scheme.text();  // with settings that were searched, whichever plan was the fastest
  const TuneResult result = tune(model_, of_prompts);
  EXPECT_TRUE(result.kept);
  const Programs programs(simplify(build_graph(model_, GraphResult::logits)),
                          {.program = {.device = norming_device(), .longest = model_.config.max_positions},
                           .mask = {},
                           .plans = {.folder = folder_.path()}});
  EXPECT_FALSE(programs.plan_of(result.bucket).kept);
  std::map<std::string, std::string> settings;
  for (const auto& [work, setting] : programs.of_prompts(result.bucket).options().settings)
    settings[work] = text_of(setting);
  ASSERT_FALSE(settings.empty());
  EXPECT_EQ(settings, settings_of(result.plan));
  const Programs hidden(simplify(build_graph(model_)),
                        {.program = {.device = norming_device(), .longest = model_.config.max_positions},
                         .mask = {},
                         .plans = {.folder = folder_.path()}});
  EXPECT_FALSE(hidden.plan_of(result.bucket).kept);
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
