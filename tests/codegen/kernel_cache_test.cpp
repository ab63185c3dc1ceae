// SPDX-License-Identifier: Apache-2.0
// The disk cache of compiled kernels: what is found, what heals, what is dropped, what is only said.
#include "src/codegen/kernel_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/room_for_bytes.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

KernelKey key(std::string source) {
  return {.source = std::move(source), .compiler = "c", .options = "o", .target = "sm_90a", .library_version = "1"};
}

struct Listening {
  std::vector<std::string> heard;
  KernelCacheOptions options(const fs::path& folder, std::uint64_t limit = 1 << 20) {
    return {.folder = folder, .limit_bytes = limit, .log = [this](std::string_view text) { heard.emplace_back(text); }};
  }
};

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == extension) found.push_back(file.path());
  return found;
}

TEST(KernelCache, ReturnsWhatWasPublishedAndKeepsTheSourceForPeople) {
  const TemporaryFolder folder;
  Listening log;
  const std::string binary("\0ELF\0binary", 11);
  KernelCache(log.options(folder / "kernels")).publish(key("source text"), binary);
  const KernelCache again(log.options(folder / "kernels"));
  EXPECT_EQ(again.find(key("source text")), binary);
  EXPECT_EQ(again.find(key("another")), std::nullopt);
  const auto sources = files_in(folder / "kernels", ".cu");
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(read_bytes(sources[0]), "// sm_90a, c o, STOF 1\nsource text");
  EXPECT_TRUE(log.heard.empty());
}

TEST(KernelCache, EveryPartOfTheKeyCounts) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  cache.publish(key("s"), "binary");
  for (std::string KernelKey::*part : {&KernelKey::source, &KernelKey::compiler, &KernelKey::options,
                                       &KernelKey::target, &KernelKey::library_version}) {
    KernelKey other = key("s");
    other.*part += "x";
    EXPECT_EQ(cache.find(other), std::nullopt);
  }
  KernelKey moved = key("s");  // the same text, cut elsewhere
  moved.compiler = "";
  moved.options = "oc";
  EXPECT_EQ(cache.find(moved), std::nullopt);
}

TEST(KernelCache, HealsDamagedEntriesAndSaysSo) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  cache.publish(key("s"), "some binary");
  const fs::path file = files_in(folder.path(), ".kernel").at(0);
  const std::string whole = read_bytes(file);
  std::string flipped = whole, foreign = whole;
  flipped.back() ^= 1;
  foreign[20] ^= 1;
  for (const std::string& damaged : {whole.substr(0, whole.size() - 1), whole.substr(0, 12), std::string(), flipped,
                                     foreign, std::string(200, 'x')}) {
    log.heard.clear();
    write_bytes(file, damaged);
    EXPECT_EQ(cache.find(key("s")), std::nullopt);
    ASSERT_EQ(log.heard.size(), 1u);
    EXPECT_EQ(log.heard[0], "kernel cache: '" + file.string() + "' is damaged and is built again");
    EXPECT_FALSE(fs::exists(file));
    cache.publish(key("s"), "some binary");
    EXPECT_EQ(cache.find(key("s")), "some binary");
  }
}

TEST(KernelCache, AFolderInPlaceOfAnEntryIsNone) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  fs::create_directory(folder / (key("s").fingerprint().hex() + ".kernel"));
  EXPECT_EQ(cache.find(key("s")), std::nullopt);
}

TEST(KernelCache, DropsWhatWasNotUsedForLongest) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path(), 3500));
  const std::string binary(1000, 'b');
  const auto age = [&](const char* source, int hours) {
    fs::last_write_time(folder / (key(source).fingerprint().hex() + ".kernel"),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* source : {"1", "2", "3"}) cache.publish(key(source), binary);
  age("1", 3), age("2", 2), age("3", 1);
  EXPECT_TRUE(cache.find(key("1")));  // used now
  cache.publish(key("4"), binary);
  EXPECT_TRUE(cache.find(key("1")));
  EXPECT_FALSE(cache.find(key("2")));
  EXPECT_TRUE(cache.find(key("3")));
  EXPECT_TRUE(cache.find(key("4")));
  EXPECT_EQ(files_in(folder.path(), ".cu").size(), 3u);
}

// A process may end between the two files of an entry.
TEST(KernelCache, ASourceWithoutItsBinaryGoes) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  cache.publish(key("1"), "binary");
  const fs::path lone = files_in(folder.path(), ".cu").at(0), binary = files_in(folder.path(), ".kernel").at(0);
  fs::remove(binary);
  cache.publish(key("2"), "binary");
  EXPECT_FALSE(fs::exists(lone));
  EXPECT_EQ(files_in(folder.path(), ".cu").size(), 1u);
  // Where the source cannot be written the binary is there before it.
  fs::create_directory(fs::path(lone));
  cache.publish(key("1"), "binary");
  EXPECT_TRUE(fs::exists(binary));
  ASSERT_EQ(log.heard.size(), 1u);
  EXPECT_TRUE(log.heard[0].ends_with("; the kernel is kept without it")) << log.heard[0];
}

TEST(KernelCache, AnEntryLargerThanTheLimitStaysUntilTheNext) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path(), 100));
  cache.publish(key("1"), std::string(1000, 'b'));
  EXPECT_TRUE(cache.find(key("1")));
  cache.publish(key("2"), std::string(1000, 'b'));
  EXPECT_FALSE(cache.find(key("1")));
  EXPECT_TRUE(cache.find(key("2")));
}

TEST(KernelCache, AFolderThatCannotBeWrittenIsSaidAndNoError) {
  const TemporaryFolder folder;
  Listening log;
  write_bytes(folder / "file", "");
  const KernelCache below(log.options(folder / "file" / "kernels"));
  below.publish(key("s"), "binary");
  ASSERT_EQ(log.heard.size(), 1u);
  EXPECT_EQ(log.heard[0], "kernel cache: cannot make folder '" + (folder / "file/kernels").string() +
                              "': Not a directory; the kernel is used and not kept");
  EXPECT_EQ(below.find(key("s")), std::nullopt);
}

TEST(KernelCache, AFullDiskIsSaidAndLeavesNothing) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  {
    const RoomForBytes few(3);
    cache.publish(key("s"), "binary");
  }
  ASSERT_EQ(log.heard.size(), 1u);
  EXPECT_EQ(log.heard[0], "kernel cache: cannot write '" +
                              (folder / (key("s").fingerprint().hex() + ".kernel")).string() +
                              "': File too large; the kernel is used and not kept");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// Of somebody who may write into the folder.
TEST(KernelCache, ALinkIsReplaced) {
  const TemporaryFolder folder;
  Listening log;
  const KernelCache cache(log.options(folder.path()));
  const fs::path entry = folder / (key("s").fingerprint().hex() + ".kernel"), victim = folder / "victim";
  fs::create_symlink(victim, entry);
  cache.publish(key("s"), "binary");
  EXPECT_FALSE(fs::exists(victim));
  EXPECT_EQ(cache.find(key("s")), "binary");
  EXPECT_TRUE(log.heard.empty());
}

TEST(KernelCache, WithoutAFolderNothingIsKept) {
  const KernelCache cache({.folder = {}});
  cache.publish(key("s"), "binary");
  EXPECT_EQ(cache.find(key("s")), std::nullopt);
}

TEST(KernelCache, ThreadsPublishAndFindAtOnce) {
  const TemporaryFolder folder;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const KernelCache cache({.folder = folder.path(), .limit_bytes = 1 << 20});
      for (int i = 0; i < 40; ++i) {
        const std::string source = std::to_string(i % 5);
        cache.publish(key(source), "binary " + source);
        const auto found = cache.find(key(source));
        if (found != "binary " + source) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files_in(folder.path(), ".kernel").size(), 5u);
  EXPECT_EQ(files_in(folder.path(), ".part").size(), 0u);
}

}  // namespace
}  // namespace stof
