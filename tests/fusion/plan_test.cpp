// SPDX-License-Identifier: Apache-2.0
// Plans and times on disk: read back as written, refused with the reason, whole or not there.
#include "src/fusion/plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "src/fusion/plan_cache.h"
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
  fs::path file_ = folder_.path() / (plan_.key.fingerprint().hex() + ".plan");
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
  changed.replace(changed.find("\"format\": 1"), 11, "\"format\": 2");
  expect_said(changed, ": a plan of format 2; accepted: 1");
  write(file_, whole.substr(0, whole.size() / 2));
  said_.clear();
  EXPECT_FALSE(cache_.find(plan_.key));
  EXPECT_EQ(said_.size(), 1U);
  EXPECT_TRUE(cache_.publish(plan_));  // written again
  EXPECT_EQ(cache_.find(plan_.key), plan_);
}

TEST_F(PlanCacheTest, APlanUnderAnotherNameIsForeign) {
  cache_.publish(plan_);
  PlanKey other = plan_.key;
  other.device = "A100";
  fs::copy_file(file_, folder_.path() / (other.fingerprint().hex() + ".plan"));
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

TEST_F(PlanCacheTest, AFolderThatCannotBeWrittenCostsThePlanAndSaysSo) {
  const fs::path blocked = folder_.path() / "file";
  write(blocked, "x");
  const PlanCache cache({.folder = blocked / "plans", .log = log_});
  EXPECT_FALSE(cache.publish(plan_));
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], "plans: cannot make folder '" + (blocked / "plans").string() +
                          "': Not a directory; the plan is used and not kept");
}

TEST_F(PlanCacheTest, TheOldestGoesWhenThereAreTooMany) {
  const PlanCache small({.folder = folder_.path(), .most_plans = 3, .log = log_});
  for (int i = 0; i < 6; ++i) {
    plan_.key.rows = 16 * (i + 1);
    EXPECT_TRUE(small.publish(plan_));
  }
  EXPECT_EQ(small.entries().size(), 3U);
  EXPECT_TRUE(small.find(plan_.key));
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

TEST_F(PlanCacheTest, TimesAreReadBack) {
  const LoggedTime time{
      .us = 1.5, .spread = 0.1, .error = 1e-4, .runs = 7, .wrong = {}, .when = "2026-01-02T03:04:05Z"};
  {
    TimeLog log(folder_.path(), "scope", log_);
    log.add("work", "setting", time);
    log.add("work", "other", {.us = 0, .wrong = "off by 1.0e+00"});
  }
  const TimeLog again(folder_.path(), "scope", log_);
  EXPECT_EQ(again.size(), 2U);
  ASSERT_NE(again.find("work", "setting"), nullptr);
  EXPECT_EQ(again.find("work", "setting")->us, 1.5);
  EXPECT_EQ(again.find("work", "setting")->when, time.when);
  EXPECT_EQ(again.find("work", "other")->wrong, "off by 1.0e+00");
  EXPECT_EQ(again.find("work", "third"), nullptr);
  EXPECT_EQ(TimeLog(folder_.path(), "another scope", log_).size(), 0U);
  EXPECT_TRUE(said_.empty());
}

// Killed while it wrote, a process leaves a line without an end: it is skipped, and the next one stands by itself.
TEST_F(PlanCacheTest, AHalfWrittenLineCostsOnlyItself) {
  fs::path path;
  {
    TimeLog log(folder_.path(), "scope", log_);
    log.add("work", "first", {.us = 1});
    log.add("work", "second", {.us = 2});
    path = log.path();
  }
  const std::string whole = text_of(path);
  write(path, whole.substr(0, whole.size() - 20));
  {
    TimeLog log(folder_.path(), "scope", log_);
    EXPECT_EQ(log.size(), 1U);
    log.add("work", "third", {.us = 3});
  }
  const TimeLog log(folder_.path(), "scope", log_);
  EXPECT_EQ(log.size(), 2U);
  EXPECT_EQ(log.skipped(), 1U);
  ASSERT_NE(log.find("work", "third"), nullptr);
  EXPECT_EQ(said_.back(), "times: 1 lines of '" + path.string() + "' are damaged and are measured again");
}

TEST_F(PlanCacheTest, TimesThatCannotBeKeptAreUsed) {
  const fs::path blocked = folder_.path() / "file";
  write(blocked, "x");
  TimeLog log(blocked / "plans", "scope", log_);
  log.add("work", "setting", {.us = 4});
  EXPECT_EQ(log.find("work", "setting")->us, 4);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], "times: cannot make folder '" + (blocked / "plans").string() +
                          "': Not a directory; what is measured now is used and not kept");
}

TEST(AppendFile, AFullDiskIsSaid) {
  AppendFile full("/dev/full");
  EXPECT_ERROR(full.add("line"), ErrorKind::device, "cannot write '/dev/full': No space left on device");
}

}  // namespace
}  // namespace stof
