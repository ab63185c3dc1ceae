// SPDX-License-Identifier: Apache-2.0
// Plans and times on disk: read back as written, refused with the reason, whole or not there.
#include "src/fusion/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "src/fusion/plan_cache.h"
#include "src/fusion/time_log.h"
#include "tests/expect_error.h"
#include "tests/room_for_bytes.h"
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

TEST_F(PlanCacheTest, TimesAreReadBack) {
  const LoggedTime time{
      .us = 1.5, .spread = 0.1, .error = 1e-4, .runs = 7, .wrong = {}, .when = "2026-01-02T03:04:05Z"};
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    log.add("work", "setting", time);
    log.add("work", "other", {.us = 0, .wrong = "off by 1.0e+00"});
  }
  const TimeLog again({.folder = folder_.path(), .scope = "scope", .log = log_});
  EXPECT_EQ(again.size(), 2U);
  ASSERT_NE(again.find("work", "setting"), nullptr);
  EXPECT_EQ(again.find("work", "setting")->us, 1.5);
  EXPECT_EQ(again.find("work", "setting")->when, time.when);
  EXPECT_EQ(again.find("work", "other")->wrong, "off by 1.0e+00");
  EXPECT_EQ(again.find("work", "third"), nullptr);
  EXPECT_EQ(TimeLog({.folder = folder_.path(), .scope = "another scope", .log = log_}).size(), 0U);
  EXPECT_TRUE(said_.empty());
}

// A time is of any weights, a verdict of those it was found with.
TEST_F(PlanCacheTest, VerdictsAreOfTheirWeights) {
  const auto log_of = [this](const std::string& weights) {
    return TimeLog({.folder = folder_.path(), .scope = "scope", .weights = weights, .log = log_});
  };
  log_of("a").add("work", "right", {.us = 2, .error = 1e-6, .runs = 5});
  log_of("a").add("work", "wrong", {.wrong = "off by nan"});
  EXPECT_EQ(log_of("a").find("work", "wrong")->wrong, "off by nan");
  EXPECT_EQ(log_of("a").find_of_others("work", "right"), nullptr);
  const TimeLog of_b = log_of("b");
  EXPECT_EQ(of_b.find("work", "right"), nullptr);
  EXPECT_EQ(of_b.find("work", "wrong"), nullptr);
  EXPECT_EQ(of_b.find_of_others("work", "wrong"), nullptr);
  ASSERT_NE(of_b.find_of_others("work", "right"), nullptr);
  EXPECT_EQ(of_b.find_of_others("work", "right")->us, 2);
  log_of("b").add("work", "right", {.wrong = "off by 1.0e+00"});
  log_of("b").add("work", "wrong", {.us = 3});
  EXPECT_EQ(log_of("b").find("work", "right")->wrong, "off by 1.0e+00");
  EXPECT_EQ(log_of("b").find("work", "wrong")->us, 3);
  EXPECT_EQ(log_of("a").find("work", "right")->wrong, "");
  EXPECT_EQ(log_of("a").find("work", "wrong")->wrong, "off by nan");
  EXPECT_TRUE(said_.empty());
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

TEST_F(PlanCacheTest, TimesThatCannotBeAreDamaged) {
  fs::path path;
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    log.add("work", "setting", {.us = 1.5, .spread = 0.25, .error = 0.125, .runs = 7});
    path = log.path();
  }
  const std::string whole = text_of(path);
  for (const auto& [was, is] : std::vector<std::pair<std::string, std::string>>{{"\"us\":1.5", "\"us\":-5"},
                                                                                {"\"us\":1.5", "\"us\":1e308"},
                                                                                {"\"us\":1.5", "\"us\":null"},
                                                                                {"\"spread\":0.25", "\"spread\":-1"},
                                                                                {"\"error\":0.125", "\"error\":-1"},
                                                                                {"\"runs\":7", "\"runs\":1e300"},
                                                                                {"\"runs\":7", "\"runs\":4294967297"},
                                                                                {"\"runs\":7", "\"runs\":-1"}}) {
    std::string changed = whole;
    changed.replace(changed.find(was), was.size(), is);
    write(path, changed);
    const TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    EXPECT_EQ(log.size(), 0U) << is;
    EXPECT_EQ(log.skipped(), 1U) << is;
  }
}

// Killed while it wrote, a process leaves a line without an end: it is skipped, and the next one stands by itself.
TEST_F(PlanCacheTest, AHalfWrittenLineCostsOnlyItself) {
  fs::path path;
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    log.add("work", "first", {.us = 1});
    log.add("work", "second", {.us = 2});
    path = log.path();
  }
  const std::string whole = text_of(path);
  write(path, whole.substr(0, whole.size() - 20));
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    EXPECT_EQ(log.size(), 1U);
    log.add("work", "third", {.us = 3});
  }
  const TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
  EXPECT_EQ(log.size(), 2U);
  EXPECT_EQ(log.skipped(), 1U);
  ASSERT_NE(log.find("work", "third"), nullptr);
  EXPECT_EQ(said_.back(), "times: 1 lines of '" + path.string() + "' are damaged and are measured again");
}

TEST_F(PlanCacheTest, TimesThatCannotBeKeptAreUsed) {
  const fs::path blocked = folder_.path() / "file";
  write(blocked, "x");
  TimeLog log({.folder = blocked / "plans", .scope = "scope", .log = log_});
  log.add("work", "setting", {.us = 4});
  EXPECT_EQ(log.find("work", "setting")->us, 4);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], "times: cannot make folder '" + (blocked / "plans").string() +
                          "': Not a directory; what is measured now is used and not kept");
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

TEST(AppendFile, OnlyARegularFileIsWritten) {
  const TemporaryFolder folder;
  const fs::path victim = folder / "victim", link = folder / "link", pipe = folder / "pipe";
  write(victim, "mine");
  fs::create_symlink(victim, link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_ERROR(AppendFile{link}, ErrorKind::bad_file,
               "cannot write '" + link.string() + "': it is a symbolic link; accepted: a regular file");
  EXPECT_ERROR(AppendFile{pipe}, ErrorKind::bad_file,
               "cannot write '" + pipe.string() + "': it is no regular file; accepted: a regular file");
  EXPECT_ERROR(AppendFile{"/dev/null"}, ErrorKind::bad_file,
               "cannot write '/dev/null': it is no regular file; accepted: a regular file");
  EXPECT_EQ(text_of(victim), "mine");
}

TEST(AppendFile, AFullDiskIsSaid) {
  const TemporaryFolder folder;
  const fs::path path = folder / "log";
  AppendFile log(path);
  const RoomForBytes few(3);
  EXPECT_ERROR(log.add("line"), ErrorKind::device, "cannot write '" + path.string() + "': No space left on device");
}

// Each time a line is to get the end that it lacks.
TEST(AppendFile, AFileThatCannotBeMendedIsClosed) {
  const TemporaryFolder folder;
  const fs::path path = folder / "log";
  write(path, "half a line");
  const auto handles = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto before = handles();
  {
    const RoomForBytes none(11);
    EXPECT_THROW(AppendFile{path}, Error);
  }
  EXPECT_EQ(handles(), before);
}

}  // namespace
}  // namespace stof
