// SPDX-License-Identifier: Apache-2.0
#include "src/model/generation_config.h"

#include <gtest/gtest.h>

#include "tests/model/changed_config.h"

namespace stof {
namespace {

using nlohmann::json;

// qwen3's vocabulary has 800 tokens.
class GenerationConfig : public ChangedConfig {
 protected:
  ModelConfig read_with(const json& generation, const json& changed = json::object()) {
    write_bytes(file_, generation.dump());
    return read("qwen3", changed);
  }
  std::filesystem::path file_ = folder_ / "generation_config.json";
};

TEST_F(GenerationConfig, SaysWhereTextsEnd) {
  using Ends = std::vector<std::int32_t>;
  EXPECT_EQ(read("qwen3", {{"eos_token_id", {3, 5}}}).ends, (Ends{3, 5}));
  EXPECT_EQ(read_with({{"eos_token_id", 7}}, {{"eos_token_id", 3}}).ends, (Ends{7}));
  EXPECT_EQ(read_with(json::object(), {{"eos_token_id", 3}}).ends, Ends{});
  EXPECT_EQ(read_with({{"eos_token_id", {800, 799, 2147483647}}}).ends, (Ends{799}));  // others are never made
  std::filesystem::remove(file_);
  EXPECT_EQ(read("qwen3", {{"eos_token_id", 800}}).ends, Ends{});
  expect("qwen3", {{"eos_token_id", -1}}, ErrorKind::bad_file,
         ": 'eos_token_id' is -1; accepted: null, an id or several");
}

TEST_F(GenerationConfig, NamesWhatIsNotApplied) {
  EXPECT_EQ(read("qwen3").not_applied, "");
  const json unused = {{"repetition_penalty", 1.0},
                       {"no_repeat_ngram_size", 0},
                       {"bad_words_ids", nullptr},
                       {"suppress_tokens", json::array()},
                       {"min_length", 0},
                       {"num_beams", 1},
                       {"temperature", 0.6},
                       {"do_sample", true},
                       {"sequence_bias", json::object()}};
  EXPECT_EQ(read_with(unused).not_applied, "");
  EXPECT_EQ(read_with({{"repetition_penalty", 1.1}, {"min_new_tokens", 2}, {"suppress_tokens", {1, 2}}}).not_applied,
            file_.string() + ": 'repetition_penalty' is 1.1, 'suppress_tokens' is [1,2], 'min_new_tokens' is 2");
  EXPECT_EQ(read_with({{"forced_eos_token_id", 0}, {"num_beams", 4}, {"bad_words_ids", {{1}}}}).not_applied,
            file_.string() + ": 'bad_words_ids' is [[1]], 'forced_eos_token_id' is 0, 'num_beams' is 4");
}

}  // namespace
}  // namespace stof
