// SPDX-License-Identifier: Apache-2.0
// What sentence-transformers put beside a checkpoint: modules.json, the pooling's own config.json, prompts.
#include <array>
#include <optional>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/config.h"
#include "src/model/file_names.h"
#include "src/model/json.h"
#include "src/model/sentence_config.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct PoolingMode {
  std::string_view name;           // "pooling_mode": "mean" of newer files
  std::string_view key;            // "pooling_mode_mean_tokens": true of older ones
  std::optional<Pooling> pooling;  // empty: known, and not supported
};
constexpr std::array<PoolingMode, 6> kModes{{
    {"cls", "pooling_mode_cls_token", Pooling::cls},
    {"mean", "pooling_mode_mean_tokens", Pooling::mean},
    {"max", "pooling_mode_max_tokens", Pooling::max},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", {}},
    {"weightedmean", "pooling_mode_weightedmean_tokens", {}},
    {"lasttoken", "pooling_mode_lasttoken", Pooling::last},
}};

Pooling supported(const JsonObject& object, const PoolingMode& mode) {
  if (mode.pooling) return *mode.pooling;
  fail(ErrorKind::unsupported, "{}: pooling {}; accepted: cls, mean, max, lasttoken", object.where(), mode.name);
}

// A name, or a list of names, whose vectors stand one after the other; of one here.
Pooling read_named_mode(const JsonObject& object) {
  const json& said = object.at("pooling_mode");
  if (said.is_array() && said.size() != 1)
    fail(ErrorKind::unsupported, "{}: 'pooling_mode' is {}; accepted: one of cls, mean, max, lasttoken", object.where(),
         excerpt(said));
  const json& name = said.is_array() ? said[0] : said;
  for (const PoolingMode& mode : kModes)
    if (name == json(mode.name)) return supported(object, mode);
  object.refuse("pooling_mode", "cls, mean, max, lasttoken");
}

Pooling read_flags(const JsonObject& object) {
  const PoolingMode* chosen = nullptr;
  for (const PoolingMode& mode : kModes) {
    if (!object.boolean(mode.key, false)) continue;
    if (chosen)
      fail(ErrorKind::unsupported, "{}: both {} and {}; accepted: one of cls, mean, max, lasttoken", object.where(),
           chosen->key, mode.key);
    chosen = &mode;
  }
  return chosen ? supported(object, *chosen) : Pooling::mean;  // as sentence-transformers does
}

Pooling read_pooling_module(const fs::path& folder, const ModelConfig& config) {
  const json tree = read_json(folder / file_names::kConfig);
  const JsonObject object(tree, (folder / file_names::kConfig).string());
  if (object.integer("word_embedding_dimension", 1, INT32_MAX, config.hidden_size) != config.hidden_size)
    object.refuse("word_embedding_dimension", fmt::format("hidden_size of the encoder, {}", config.hidden_size));
  return object.has("pooling_mode") ? read_named_mode(object) : read_flags(object);
}

// What a module that came after one of these may be, by the last word of its type.
bool may_follow(std::string_view before, std::string_view name) {
  if (before.empty()) return name == "Transformer";
  if (before == "Transformer") return name == "Pooling";
  return before != "Normalize" && (name == "Dense" || name == "Normalize");
}

// Transformer, Pooling, Dense layers or none, and perhaps Normalize.
void read_modules(const fs::path& folder, const ModelConfig& config, PoolingConfig& result) {
  const fs::path file = folder / file_names::kModules;
  const json tree = read_json(file);
  if (!tree.is_array()) fail(ErrorKind::bad_file, "{}: {}; accepted: an array", file.string(), excerpt(tree));
  constexpr std::size_t kMostModules = 64;
  const auto check_count = [&](bool fits) {
    if (!fits)
      fail(ErrorKind::unsupported, "{}: {} modules; accepted: 2 to {}", file.string(), tree.size(), kMostModules);
  };
  check_count(tree.size() <= kMostModules);
  std::string before;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const JsonObject module(tree[i], fmt::format("{}: module {}", file.string(), i));
    const std::string type = module.string("type"), path = module.string("path"),
                      name = type.substr(type.rfind('.') + 1);
    if (!type.starts_with("sentence_transformers.") || !may_follow(before, name))
      fail(ErrorKind::unsupported,
           "{}: {}; accepted: Transformer, Pooling, Dense any number of times, Normalize of sentence_transformers, in "
           "this order",
           module.where(), type);
    if (i == 0 && !path.empty()) fail(ErrorKind::unsupported, "{}: path '{}'; accepted: ''", module.where(), path);
    if ((name == "Pooling" || name == "Dense") && !is_entry_name(path))
      module.refuse("path", fmt::format("a folder {}", kEntryName));
    if (name == "Pooling") result.pooling = read_pooling_module(folder / path, config);
    if (name == "Dense")
      result.dense.push_back(
          read_dense_layer(folder / path, result.dense.empty() ? config.hidden_size : result.dense.back().outputs()));
    if (name == "Normalize") result.normalize = true;
    before = name;
  }
  check_count(tree.size() >= 2);
}

// A prompt that sentence-transformers would put before every text that it is given without one.
void check_no_prompt(const fs::path& folder) {
  const fs::path file = folder / file_names::kPrompts;
  if (!is_there(file)) return;
  const json tree = read_json(file);
  const JsonObject object(tree, file.string());
  if (!object.has("default_prompt_name") || object.at("default_prompt_name").is_null()) return;
  const std::string name = object.string("default_prompt_name");
  if (object.has("prompts") && object.object("prompts").string(name, "no such prompt").empty()) return;
  fail(ErrorKind::unsupported, "{}: 'default_prompt_name' is {}; accepted: null; put the prompt into the texts",
       object.where(), excerpt(object.at("default_prompt_name")));
}

// T5 has no token in front of a text, and the others of these were not trained to say anything there.
Pooling usual_pooling(Family family) {
  if (is_decoder(family)) return Pooling::last;
  const bool by_mean = family == Family::t5 || family == Family::eurobert || family == Family::nomic;
  return by_mean ? Pooling::mean : Pooling::cls;
}

}  // namespace

PoolingConfig read_pooling(const fs::path& folder, const ModelConfig& config) {
  PoolingConfig result{.pooling = usual_pooling(config.family)};
  if (is_there(folder / file_names::kModules)) read_modules(folder, config, result);
  check_no_prompt(folder);
  result.max_tokens = read_max_tokens(folder, config.max_positions);
  return result;
}

}  // namespace stof
