// SPDX-License-Identifier: Apache-2.0
#include "src/model/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/expect_error.h"
#include "tests/model/checkpoint.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Tokenizer, PutsSpecialTokensAround) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  EXPECT_EQ(tokenizer.encode(""), (Ids{101, 102}));
  EXPECT_EQ(tokenizer.encode("Hello, world!"), (Ids{101, 7592, 1010, 2088, 999, 102}));
  EXPECT_EQ(tokenizer.encode("unaffable"), (Ids{101, 14477, 20961, 3468, 102}));
  EXPECT_EQ(tokenizer.encode("[MASK]"), (Ids{101, 103, 102}));
}

TEST(Tokenizer, RefusesTextsThatTakeGigabytes) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  const std::string text((std::size_t{256} << 20) + 1, ' ');
  EXPECT_ERROR(tokenizer.encode(text, 8), ErrorKind::invalid_argument,
               "a text of 268435457 bytes; accepted: at most 268435456, so split it");
}

TEST(Tokenizer, TruncatesBetweenTheSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  const auto three = tokenizer.encode("Hello, world!", 3);
  EXPECT_EQ(three.ids, (Ids{101, 7592, 102}));
  EXPECT_TRUE(three.truncated);
  const auto six = tokenizer.encode("Hello, world!", 6);
  EXPECT_EQ(six.ids, tokenizer.encode("Hello, world!"));
  EXPECT_FALSE(six.truncated);
  EXPECT_EQ(tokenizer.encode("Hello", 2).ids, (Ids{101, 102}));
  EXPECT_ERROR(tokenizer.encode("Hello", 1), ErrorKind::invalid_argument,
               "max_tokens = 1; accepted: at least 2, the special tokens");
  EXPECT_ERROR(tokenizer.encode("Hello", -1), ErrorKind::invalid_argument,
               "max_tokens = -1; accepted: at least 2, the special tokens");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  EXPECT_ERROR(tokenizer.encode("abc\xff"), ErrorKind::invalid_argument, "the text is not UTF-8 at byte 3: 0xFF");
  EXPECT_ERROR(tokenizer.encode("abcdefghijk\xc3"), ErrorKind::invalid_argument,
               "the text is not UTF-8 at byte 11: 0xC3");
}

TEST(Tokenizer, IsThreadSafe) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  const Ids expected = tokenizer.encode("Zu\xcc\x88rich [MASK] \xe4\xb8\xad");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += tokenizer.encode("Zu\xcc\x88rich [MASK] \xe4\xb8\xad") != expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// vocab.txt alone says the same as tokenizer.json, for it was made from it.
TEST(Tokenizer, VocabularyFileGivesTheSameIds) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint());
  TemporaryFolder folder;
  for (const char* name : {"vocab.txt", "tokenizer_config.json"})
    std::filesystem::copy_file(checkpoint() / name, folder / name);
  const Tokenizer from_vocabulary = Tokenizer::load(folder.path());
  std::ifstream file(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/token_ids.txt");
  int count = 0;
  for (std::string text, ids, hashes;
       std::getline(file, text) && std::getline(file, ids) && std::getline(file, hashes);) {
    const auto string = nlohmann::json::parse(text).get<std::string>();
    EXPECT_EQ(from_vocabulary.encode(string), tokenizer.encode(string)) << text;
    ++count;
  }
  EXPECT_GE(count, 2000);
}

}  // namespace
}  // namespace stof
