// SPDX-License-Identifier: Apache-2.0
// What a search finds in its log, and what it measures again.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "src/base/append_file.h"
#include "src/codegen/compiler.h"
#include "src/fusion/fuse.h"
#include "src/fusion/plan_cache.h"
#include "src/tensor/convert.h"
#include "src/tensor/npy.h"
#include "tests/fusion/norming_device.h"
#include "tests/fusion/tuned_model.h"
#include "tests/runtime/recording_device.h"

namespace stof {
namespace {

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
  TuneResult again = tune(model_, asked);
  for (int more = 0; more < 5 && again.search.us == first.search.us; ++more)  // by chance
    again = tune(model_, asked);
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
  const Graph graph = simplify(build_bert(model_));
  before.plan.scheme = detached_scheme(Blocks(graph));
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

}  // namespace
}  // namespace stof
