// SPDX-License-Identifier: Apache-2.0
#include "src/model/sentence_config.h"

#include <array>
#include <optional>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/file_names.h"
#include "src/model/json.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct SentenceFile {
  fs::path path;
  json tree;
};

// Files that say nothing are passed over, as sentence-transformers does.
std::optional<SentenceFile> find_file(const fs::path& folder) {
  for (const std::string_view name : file_names::kSentenceConfigs) {
    const fs::path path = folder / name;
    if (!is_there(path)) continue;
    json tree = read_json(path);
    if (!tree.empty()) return SentenceFile{path, std::move(tree)};
  }
  return {};
}

// Files without a limit of their own carry 1e30.
std::int64_t limit_of(const JsonObject& object, std::string_view key, std::int64_t max_positions) {
  if (object.positive_number(key) >= static_cast<double>(max_positions)) return max_positions;
  return object.integer(key, 2, max_positions);  // [CLS] and [SEP] at least
}

// The tokenizer's own limit counts only where no sentence-transformers file gives one.
std::int64_t tokenizer_limit(const fs::path& folder, std::int64_t max_positions) {
  const fs::path file = folder / file_names::kTokenizerConfig;
  if (!is_there(file)) return max_positions;
  const json tree = read_json(file);
  const JsonObject object(tree, file.string());
  return is_said(object, "model_max_length") ? limit_of(object, "model_max_length", max_positions) : max_positions;
}

// What is given to from_pretrained of transformers, under the names of today and of before, and to each call of the
// tokenizer. The first may say trust_remote_code, which sentence-transformers drops.
void check_arguments(const JsonObject& object) {
  for (const std::string_view key :
       {"model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs"}) {
    if (!is_said(object, key)) continue;
    const std::size_t dropped = object.object(key).has("trust_remote_code") ? 1 : 0;
    if (object.at(key).size() > dropped) refuse(object, key, "null or nothing in it");
  }
  if (is_said(object, "tokenizer_name_or_path")) refuse(object, "tokenizer_name_or_path", "null");
  if (!is_said(object, "processing_kwargs")) return;
  const JsonObject calls = object.object("processing_kwargs");
  for (const std::string_view key : {"text", "common"})
    if (is_said(calls, key) && !calls.at(key).empty()) refuse(calls, key, "null or nothing in it");
}

// That the vectors of tokens are what is pooled; how images or messages are taken says nothing of texts.
void check_output(const JsonObject& object) {
  if (object.string("transformer_task", "feature-extraction") != "feature-extraction")
    refuse(object, "transformer_task", "feature-extraction");
  if (is_said(object, "modality_config")) {
    const JsonObject kinds = object.object("modality_config");
    const json accepted = {{"method", "forward"}, {"method_output_name", "last_hidden_state"}};
    if (kinds.at("text") != accepted) refuse(kinds, "text", accepted.dump());
  }
  if (is_said(object, "module_output_name") && object.string("module_output_name") != "token_embeddings")
    refuse(object, "module_output_name", "token_embeddings");
}

}  // namespace

std::int64_t read_max_tokens(const fs::path& folder, std::int64_t max_positions) {
  const std::optional<SentenceFile> file = find_file(folder);
  if (!file) return tokenizer_limit(folder, max_positions);
  const JsonObject object(file->tree, file->path.string());
  check_arguments(object);
  check_output(object);
  return is_said(object, "max_seq_length") ? limit_of(object, "max_seq_length", max_positions)
                                           : tokenizer_limit(folder, max_positions);
}

void check_lower_case(const fs::path& folder, bool tokenizer_lowercases) {
  const std::optional<SentenceFile> file = find_file(folder);
  if (!file) return;
  const JsonObject object(file->tree, file->path.string());
  if (object.boolean("do_lower_case", false) && !tokenizer_lowercases)
    refuse(object, "do_lower_case", "false, or a tokenizer that lowercases by itself");
}

}  // namespace stof
