// SPDX-License-Identifier: Apache-2.0
#include "src/model/generation_config.h"

#include <array>
#include <limits>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/file_names.h"

namespace stof {
namespace {

using nlohmann::json;

// A number, several, or null. One that the vocabulary has not is never made, and ends nothing.
std::vector<std::int32_t> read_ends(const JsonObject& object, std::int64_t vocabulary) {
  constexpr std::string_view kKey = "eos_token_id";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int32_t> ends;
  if (!is_said(object, kKey)) return ends;
  const json list = object.at(kKey).is_array() ? object.at(kKey) : json::array({object.at(kKey)});
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > kMost) object.refuse(kKey, "null, an id or several");
    if (id < vocabulary) ends.push_back(id.get<std::int32_t>());
  }
  return ends;
}

// By what transformers changes also the likeliest tokens, and the value with which it does not; null and what is empty
// never do.
struct Setting {
  std::string_view key;
  double unused;
};
constexpr double kNone = -1;
constexpr std::array<Setting, 16> kSettings{{{"repetition_penalty", 1},
                                             {"encoder_repetition_penalty", 1},
                                             {"no_repeat_ngram_size", 0},
                                             {"encoder_no_repeat_ngram_size", 0},
                                             {"bad_words_ids", kNone},
                                             {"sequence_bias", kNone},
                                             {"suppress_tokens", kNone},
                                             {"begin_suppress_tokens", kNone},
                                             {"forced_bos_token_id", kNone},
                                             {"forced_eos_token_id", kNone},
                                             {"min_length", 0},
                                             {"min_new_tokens", 0},
                                             {"exponential_decay_length_penalty", kNone},
                                             {"guidance_scale", 1},
                                             {"num_beams", 1},
                                             {"stop_strings", kNone}}};

bool is_used(const JsonObject& object, const Setting& setting) {
  if (!is_said(object, setting.key)) return false;
  const json& value = object.at(setting.key);
  return value.is_structured() ? !value.empty() : value != json(setting.unused);
}

std::string used_settings(const JsonObject& object) {
  std::string text;
  for (const Setting& setting : kSettings)
    if (is_used(object, setting))
      text += fmt::format("{} '{}' is {}", text.empty() ? object.where() + ":" : ",", setting.key,
                          excerpt(object.at(setting.key)));
  return text;
}

}  // namespace

// What generation_config.json says comes first, as in transformers.
void read_generation(const std::filesystem::path& folder, const JsonObject& object, ModelConfig& config) {
  const std::filesystem::path file = folder / file_names::kGeneration;
  if (!is_there(file)) {
    config.ends = read_ends(object, config.vocab_size);
    return;
  }
  const json tree = read_json(file);
  const JsonObject generation(tree, file.string());
  config.ends = read_ends(generation, config.vocab_size);
  config.not_applied = used_settings(generation);
}

}  // namespace stof
