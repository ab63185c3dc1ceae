// SPDX-License-Identifier: Apache-2.0
// Times on disk: read back as written, with the weights that verdicts are of; what is damaged costs only itself.
#include "src/fusion/time_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/base/whole_file.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

class TimeLogTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::vector<std::string> said_;
  Log log_ = [this](std::string_view message) { said_.emplace_back(message); };
};

TEST_F(TimeLogTest, TimesAreReadBack) {
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
TEST_F(TimeLogTest, VerdictsAreOfTheirWeights) {
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

TEST_F(TimeLogTest, TimesThatCannotBeAreDamaged) {
  fs::path path;
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    log.add("work", "setting", {.us = 1.5, .spread = 0.25, .error = 0.125, .runs = 7});
    path = log.path();
  }
  const std::string whole = read_bytes(path);
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
    write_bytes(path, changed);
    const TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    EXPECT_EQ(log.size(), 0U) << is;
    EXPECT_EQ(log.skipped(), 1U) << is;
  }
}

// Of a machine that was busy, for one.
TEST_F(TimeLogTest, WhatIsMeasuredAgainTakesTheOlderPlace) {
  const auto log_of = [this](const std::string& weights, bool again) {
    return TimeLog({.folder = folder_.path(), .scope = "scope", .weights = weights, .again = again, .log = log_});
  };
  log_of("a", false).add("work", "setting", {.us = 9, .error = 1e-6});
  log_of("b", false).add("work", "setting", {.us = 9, .wrong = "off"});
  TimeLog again = log_of("a", true);
  EXPECT_EQ(again.find("work", "setting"), nullptr);
  again.add("work", "setting", {.us = 2, .error = 1e-5});
  EXPECT_EQ(again.find("work", "setting")->us, 2);
  log_of("a", false).add("work", "setting", {.us = 7});  // of a process that began before
  EXPECT_EQ(log_of("a", false).find("work", "setting")->us, 2);
  EXPECT_EQ(log_of("a", false).find("work", "setting")->error, 1e-5);
  EXPECT_EQ(log_of("b", false).find("work", "setting")->wrong, "off");
  EXPECT_EQ(log_of("c", false).find_of_others("work", "setting")->us, 2);
  EXPECT_TRUE(said_.empty());
}

TEST_F(TimeLogTest, ALogThatIsTooLargeIsSaidAndLeftAlone) {
  const TimeLogOptions options{.folder = folder_.path(), .scope = "scope", .log = log_};
  const fs::path path = TimeLog(options).path();
  fs::resize_file(path, kMostWholeFile + 1);
  TimeLog log(options);
  log.add("work", "setting", {.us = 4});
  EXPECT_EQ(log.find("work", "setting")->us, 4);
  EXPECT_EQ(fs::file_size(path), kMostWholeFile + 1);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0],
            "times: '" + path.string() +
                "' has 268435457 bytes; accepted: at most 268435456; it is neither read nor added to until it "
                "is removed");
}

// Killed while it wrote, a process leaves a line without an end: it is skipped, and the next one stands by itself.
TEST_F(TimeLogTest, AHalfWrittenLineCostsOnlyItself) {
  fs::path path;
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    log.add("work", "first", {.us = 1});
    log.add("work", "second", {.us = 2});
    path = log.path();
  }
  const std::string whole = read_bytes(path);
  write_bytes(path, whole.substr(0, whole.size() - 20));
  {
    TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
    EXPECT_EQ(log.size(), 1U);
    log.add("work", "third", {.us = 3});
  }
  const TimeLog log({.folder = folder_.path(), .scope = "scope", .log = log_});
  EXPECT_EQ(log.size(), 2U);
  EXPECT_EQ(log.skipped(), 1U);
  ASSERT_NE(log.find("work", "third"), nullptr);
  EXPECT_EQ(said_.back(), "times: 1 damaged line of '" + path.string() + "' left out");
}

TEST_F(TimeLogTest, TimesThatCannotBeKeptAreUsed) {
  const fs::path blocked = folder_.path() / "file";
  write_bytes(blocked, "x");
  TimeLog log({.folder = blocked / "plans", .scope = "scope", .log = log_});
  log.add("work", "setting", {.us = 4});
  EXPECT_EQ(log.find("work", "setting")->us, 4);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0], "times: cannot make folder '" + (blocked / "plans").string() +
                          "': Not a directory; what is measured now is used and not kept");
}

}  // namespace
}  // namespace stof
