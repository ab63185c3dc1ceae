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

// Transformer, then Pooling, then perhaps Normalize; the last word of the type tells which.
void read_modules(const fs::path& folder, const ModelConfig& config, PoolingConfig& result) {
  const fs::path file = folder / file_names::kModules;
  const json tree = read_json(file);
  if (!tree.is_array()) fail(ErrorKind::bad_file, "{}: {}; accepted: an array", file.string(), excerpt(tree));
  constexpr std::array<std::string_view, 3> kOrder{"Transformer", "Pooling", "Normalize"};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const JsonObject module(tree[i], fmt::format("{}: module {}", file.string(), i));
    const std::string type = module.string("type"), path = module.string("path");
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);
    if (!type.starts_with("sentence_transformers.") || i >= kOrder.size() || name != kOrder[i])
      fail(ErrorKind::unsupported,
           "{}: {}; accepted: Transformer, Pooling, Normalize of sentence_transformers, in this order", module.where(),
           type);
    if (i == 0 && !path.empty()) fail(ErrorKind::unsupported, "{}: path '{}'; accepted: ''", module.where(), path);
    if (i == 1 && !is_entry_name(path)) module.refuse("path", fmt::format("a folder {}", kEntryName));
    if (i == 1) result.pooling = read_pooling_module(folder / path, config);
    if (i == 2) result.normalize = true;
  }
  if (tree.size() < 2) fail(ErrorKind::unsupported, "{}: {} modules; accepted: 2 or 3", file.string(), tree.size());
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

}  // namespace

PoolingConfig read_pooling(const fs::path& folder, const ModelConfig& config) {
  PoolingConfig result{.pooling = is_decoder(config.family) ? Pooling::last : Pooling::cls};
  if (is_there(folder / file_names::kModules)) read_modules(folder, config, result);
  check_no_prompt(folder);
  result.max_tokens = read_max_tokens(folder, config.max_positions);
  return result;
}

}  // namespace stof
