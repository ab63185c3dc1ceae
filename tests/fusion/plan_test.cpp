// SPDX-License-Identifier: Apache-2.0
// Plans on disk: read back as written, refused with the reason, whole or not there.
#include "src/fusion/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "src/backend/contract.h"
#include "src/fusion/plan_cache.h"
#include "src/fusion/plan_model.h"
#include "src/fusion/time_log.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

FusionPlan plan_of(const std::string& device) {
  return {.key = {.graph = "g",
                  .mask = "m",
                  .rows = 128,
                  .texts = 1,
                  .longest = 128,
                  .dtype = "f16",
                  .device = device,
                  .weights = "w",
                  .cores = 132,
                  .driver = "580.1",
                  .cuda = "13.0",
                  .blas = "13.0.2",
                  .library = "0.1.0"},
          .model = "some model",
          .mask = "causal",
          .scheme = {{"000", "0011"}},
          .origin = "tuned",
          .works = {{"linear 8>8 gelu", "cublaslt", 12, 3.25, 0.01, 20, "2026-01-02T03:04:05Z"}},
          .confirmed = {{"default", "000,0011", 401.5, 0.002, 1e-3, 30}},
          .commit = "abc",
          .when = "2026-01-02T03:04:06Z"};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

class PlanCacheTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::vector<std::string> said_;
  Log log_ = [this](std::string_view message) { said_.emplace_back(message); };
  PlanCache cache_{{.folder = folder_.path(), .log = log_}};
  FusionPlan plan_ = plan_of("H200");
  fs::path file_ = path_of(plan_.key);
  fs::path path_of(const PlanKey& key) const {
    return folder_.path() / (key.fingerprint().hex() + "-" + key.question().hex() + ".plan");
  }
};

TEST_F(PlanCacheTest, APlanIsReadBackAsItWasWritten) {
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_TRUE(cache_.publish(plan_));
  EXPECT_EQ(cache_.find(plan_.key), plan_);
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);  // nothing is left beside it
}

TEST_F(PlanCacheTest, ADamagedPlanIsNotUsedAndSaysWhy) {
  cache_.publish(plan_);
  const std::string whole = text_of(file_);
  const auto expect_said = [&](const std::string& text, const std::string& why) {
    write(file_, text);
    said_.clear();
    EXPECT_FALSE(cache_.find(plan_.key));
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_EQ(said_[0], "plans: '" + file_.string() + "' is not used: " + file_.filename().string() + why);
  };
  std::string changed = whole;
  changed.replace(changed.find("3.25"), 4, "3.15");
  expect_said(changed, ": its checksum does not fit");
  changed = whole;
  changed.replace(changed.find("\"format\": 2"), 11, "\"format\": 1");
  expect_said(changed, ": a plan of format 1; accepted: 2");
  write(file_, whole.substr(0, whole.size() / 2));
  said_.clear();
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_EQ(said_.size(), 1U);
  EXPECT_TRUE(cache_.publish(plan_));  // written again
  EXPECT_EQ(cache_.find(plan_.key), plan_);
}

// What no session takes, with a checksum that fits.
TEST_F(PlanCacheTest, APlanMustHaveSchemesAndLists) {
  for (const char* scheme : {"", "000,", "0012", "100"}) {
    plan_.scheme = {strings_of(scheme)};
    EXPECT_ERROR(
        plan_from_json(to_json(plan_).dump(), "p"), ErrorKind::bad_file,
        fmt::format("p: 'scheme' is \"{}\"; accepted: 0 and 1, 0 first, as in 0011, for each kind of block", scheme));
  }
  plan_ = plan_of("H200");
  for (const char* key : {"works", "confirmed"}) {
    nlohmann::json json = to_json(plan_);
    json[key] = nullptr;
    json.erase("checksum");
    json["checksum"] = fingerprint_of(json.dump()).hex();
    EXPECT_ERROR(plan_from_json(json.dump(), "p"), ErrorKind::bad_file,
                 fmt::format("p: '{}' is null; accepted: a list", key));
  }
}

TEST_F(PlanCacheTest, APlanUnderAnotherNameIsForeign) {
  cache_.publish(plan_);
  PlanKey other = plan_.key;
  other.device = "A100";
  fs::copy_file(file_, path_of(other));
  EXPECT_FALSE(cache_.find(other));
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("is not used: its name is not that of its key"), std::string::npos) << said_[0];
}

TEST_F(PlanCacheTest, APlanOfAnotherDeviceSaysSo) {
  cache_.publish(plan_);
  const std::string name = plan_.key.fingerprint().hex().substr(0, 8);
  PlanKey here = plan_.key;
  here.device = "A100";
  EXPECT_FALSE(cache_.find(here));
  EXPECT_EQ(cache_.near_miss(here), "plan " + name + " is not used: device is 'H200'; here it is 'A100'");
  here = plan_.key;
  here.driver = "590.0";
  EXPECT_EQ(cache_.near_miss(here), "plan " + name + " is not used: driver is '580.1'; here it is '590.0'");
  here = plan_.key;
  here.library = "0.2.0";
  EXPECT_EQ(cache_.near_miss(here), "plan " + name + " is not used: library is '0.1.0'; here it is '0.2.0'");
  here = plan_.key;
  here.rows = 256;  // another question, not a near miss
  EXPECT_EQ(cache_.near_miss(here), std::nullopt);
}

// Of two checkpoints of the same sizes each keeps its own: what is right with one may be wrong with the other.
TEST_F(PlanCacheTest, APlanOfOtherWeightsSaysSo) {
  FusionPlan other = plan_, far = plan_;
  other.key.weights = "v";
  far.key.weights = "u";
  far.key.device = "A100";
  for (const FusionPlan& plan : {plan_, other, far}) EXPECT_TRUE(cache_.publish(plan));
  EXPECT_EQ(cache_.find(plan_.key), plan_);
  EXPECT_EQ(cache_.find(other.key), other);
  fs::remove(file_);
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_EQ(cache_.near_miss(plan_.key), "plan " + other.key.fingerprint().hex().substr(0, 8) +
                                             " is not used: its weights are 'v'; here they are 'w'");
}

// Its name is not that of a key of today; what it answers is.
TEST_F(PlanCacheTest, APlanOfAnEarlierFormatSaysSo) {
  EXPECT_FALSE(cache_.has_answers(plan_.key));
  nlohmann::ordered_json json = to_json(plan_);
  json["format"] = 1;
  json["key"].erase("weights");
  const std::string name = std::string(32, 'a') + "-" + plan_.key.question().hex() + ".plan";
  write(folder_.path() / name, json.dump());
  EXPECT_TRUE(cache_.has_answers(plan_.key));
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_EQ(cache_.near_miss(plan_.key), "plan aaaaaaaa is not used: " + name + ": a plan of format 1; accepted: 2");
  nlohmann::ordered_json asked = json["key"];
  for (const char* part : {"device", "driver", "cuda", "blas", "library"}) asked[part] = "";
  asked["cores"] = 0;
  EXPECT_EQ(plan_.key.question(), fingerprint_of(asked.dump()));
}

// Another processor with the same instructions and as many threads is another device.
TEST(PlanKey, NamesTheProcessorAndTheLibraries) {
  Device cpu = open_device("cpu");
  const PlanKey key = on_device(plan_of("").key, cpu);
  EXPECT_EQ(key.rows, 128);
  EXPECT_EQ(key.device, fmt::format("{} ({})", cpu_backend.processor(), cpu.caps.name));
  EXPECT_TRUE(key.blas.starts_with("oneDNN ")) << key.blas;
  Backend other = cpu_backend;
  other.processor = [] { return std::string("Another"); };
  cpu.backend = &other;
  EXPECT_EQ(difference(key, on_device(plan_of("").key, cpu)),
            fmt::format("device is '{}'; here it is 'Another ({})'", key.device, cpu.caps.name));
}

// With a checksum that fits: nobody but the device knows better.
TEST_F(PlanCacheTest, SettingsThatADeviceHasNoWordsForAreWrong) {
  Backend with_settings = cpu_backend;
  with_settings.matmul.settings = [](const LinearSpec&, std::int64_t) { return std::vector<MatmulChoice>(); };
  const Device host = open_device("cpu"), device{.backend = &with_settings, .caps = {}};
  EXPECT_EQ(wrong_setting(plan_, device), "");
  EXPECT_EQ(wrong_setting(plan_, host), "'linear 8>8 gelu': setting 'cublaslt'; accepted on cpu: none");
  plan_.works.front().setting = "nosuchkernel";
  EXPECT_EQ(
      wrong_setting(plan_, device),
      "'linear 8>8 gelu': matmul setting 'nosuchkernel'; accepted: cublaslt, or one like 'wgmma 128x192 k64 s4 w2 "
      "t1 split1', with ' share2' behind it or not, 'mma 128x128 k32 s4 w8 t1 split1', or 'gemv 16'");
  plan_.works.front().setting.clear();
  EXPECT_EQ(wrong_setting(plan_, host), "");
}

TEST_F(PlanCacheTest, AFolderThatCannotBeWrittenCostsThePlanAndSaysSo) {
  const fs::path blocked = folder_.path() / "file";
  write(blocked, "x");
  const PlanCache cache({.folder = blocked / "plans", .log = log_});
  EXPECT_FALSE(cache.publish(plan_));
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0],
            "plans: cannot make folder '" + (blocked / "plans").string() + "': Not a directory; the plan is not kept");
}

TEST_F(PlanCacheTest, TheOldestGoesWhenThereAreTooMany) {
  const PlanCache small({.folder = folder_.path(), .most_plans = 3, .log = log_});
  const auto publish = [&](int rows, int days_ago) {
    plan_.key.rows = rows;
    EXPECT_TRUE(small.publish(plan_));
    fs::last_write_time(path_of(plan_.key), fs::file_time_type::clock::now() - std::chrono::hours(24 * days_ago));
  };
  publish(16, 2);
  publish(32, 4);  // the oldest, written second
  publish(48, 3);
  publish(64, 0);
  publish(80, 0);
  std::vector<std::int64_t> left;
  for (const PlanEntry& entry : small.entries()) left.push_back(entry.plan->key.rows);
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::int64_t>{16, 64, 80}));
}

// Whoever may write into the folder may put one there; and 1000 plans of other models are not opened for one call.
TEST_F(PlanCacheTest, OnlyWhatAnswersTheSameQuestionIsOpened) {
  PlanKey here = plan_.key;
  here.device = "A100";
  ASSERT_TRUE(cache_.publish(plan_));
  EXPECT_TRUE(cache_.near_miss(here));
  fs::rename(file_, folder_.path() / (plan_.key.fingerprint().hex() + "-" + std::string(32, '0') + ".plan"));
  EXPECT_EQ(cache_.near_miss(here), std::nullopt);
  ASSERT_EQ(cache_.entries().size(), 1U);
  EXPECT_EQ(cache_.entries().front().problem, "its name is not that of its key");
}

TEST_F(PlanCacheTest, NoPlanIsLarge) {
  plan_.mask = std::string(1 << 20, 'm');
  EXPECT_FALSE(cache_.publish(plan_));
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], fmt::format("plans: a plan of {} bytes; accepted: at most 1048576; the plan is not kept",
                                  to_json(plan_).dump(2).size() + 1));
  write(file_, to_json(plan_).dump());
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_EQ(said_.back(), "plans: '" + file_.string() +
                              "' is not used: cannot be read; accepted: a regular file of at most 1048576 bytes");
}

// For who carries a plan here: it is of no other use.
TEST_F(PlanCacheTest, KeepingSaysWhyNot) {
  const fs::path blocked = folder_.path() / "file";
  write(blocked, "x");
  EXPECT_ERROR(PlanCache({.folder = blocked / "plans"}).keep(plan_), ErrorKind::bad_file,
               "cannot make folder '" + (blocked / "plans").string() + "': Not a directory");
}

// A writer that was killed has left one; another one is at work.
TEST_F(PlanCacheTest, PartsThatNobodyWritesAnyMoreGo) {
  const fs::path abandoned = folder_.path() / "a.plan.0123.part", recent = folder_.path() / "b.plan.4567.part";
  write(abandoned, "half");
  write(recent, "half");
  fs::last_write_time(abandoned, fs::file_time_type::clock::now() - std::chrono::hours(25));
  EXPECT_TRUE(cache_.publish(plan_));
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(recent));
}

TEST_F(PlanCacheTest, ANameMustBeginOnePlan) {
  EXPECT_ERROR(
      cache_.entry("zz"), ErrorKind::invalid_argument,
      "0 plans in '" + folder_.path().string() + "' begin with 'zz'; accepted: one ('stof plans list' names them)");
  cache_.publish(plan_);
  EXPECT_EQ(cache_.entry(plan_.key.fingerprint().hex().substr(0, 6)).plan, plan_);
}

// Two processes that tune the same model: a reader sees one plan or the other, never a mixture.
TEST_F(PlanCacheTest, WritersAtTheSameTimeLeaveAWholePlan) {
  cache_.publish(plan_);
  const auto publish_often = [&](const std::string& commit) {
    FusionPlan mine = plan_;
    mine.commit = commit;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(PlanCache({.folder = folder_.path()}).publish(mine));
  };
  std::thread one(publish_often, "one"), two(publish_often, "two");
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(cache_.find(plan_.key));
  one.join();
  two.join();
  const std::string commit = cache_.find(plan_.key)->commit;
  EXPECT_TRUE(commit == "one" || commit == "two") << commit;
}

// JSON has no number for them.
TEST_F(PlanCacheTest, WhatIsNoNumberIsReadBackAsTheLargest) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN(), kMost = std::numeric_limits<double>::max();
  TimeLog({.folder = folder_.path(), .scope = "scope", .log = log_})
      .add("work", "setting", {.error = kNone, .wrong = "off by nan"});
  const TimeLog again({.folder = folder_.path(), .scope = "scope", .log = log_});
  ASSERT_NE(again.find("work", "setting"), nullptr);
  EXPECT_EQ(again.find("work", "setting")->error, kMost);
  plan_.confirmed.front().error = kNone;
  EXPECT_TRUE(cache_.publish(plan_));
  ASSERT_TRUE(cache_.find(plan_.key));
  EXPECT_EQ(cache_.find(plan_.key)->confirmed.front().error, kMost);
  EXPECT_TRUE(said_.empty());
}

// Whoever may write into the folder may put them there.
TEST_F(PlanCacheTest, WhatIsNoFileIsReplacedByThePlan) {
  const fs::path victim = folder_.path() / "victim";
  write(victim, "mine");
  fs::create_symlink(victim, file_);
  EXPECT_TRUE(cache_.publish(plan_));
  EXPECT_EQ(text_of(victim), "mine");
  EXPECT_FALSE(fs::is_symlink(file_));
  EXPECT_EQ(cache_.find(plan_.key), plan_);
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0666), 0);  // nobody reads
  EXPECT_TRUE(cache_.publish(plan_));
  EXPECT_EQ(cache_.find(plan_.key), plan_);
  EXPECT_TRUE(said_.empty());
}

}  // namespace
}  // namespace stof
