// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, as the library `tokenizers` writes it. The length of its truncation, and its padding, are left to the
// caller: a sentence-transformers checkpoint overrides them.
#include "src/model/tokenizer_json.h"

#include <array>
#include <limits>
#include <map>
#include <optional>

#include "src/base/error.h"
#include "src/model/json.h"
#include "src/model/tokenizer_files.h"

namespace stof {
namespace {

using nlohmann::json;
constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max() - 1;

}  // namespace

void check_type(const JsonObject& object, std::string_view accepted) {
  if (const std::string type = object.string("type"); type != accepted)
    fail(ErrorKind::unsupported, "{}: type {}; accepted: {}", object.where(), type, accepted);
}

bool is_id(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostId);
}

std::int32_t read_id(const json& value, std::string_view where) {
  if (!is_id(value))
    fail(ErrorKind::bad_file, "{}: id {}; accepted: an integer from 0 to {}", where, excerpt(value), kMostId);
  return value.get<std::int32_t>();
}

namespace {

NormalizerOptions read_normalizer(const JsonObject& object) {
  check_type(object, "BertNormalizer");
  object.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = object.boolean("lowercase");
  return {.clean_text = object.boolean("clean_text"),
          .handle_chinese_chars = object.boolean("handle_chinese_chars"),
          .strip_accents = object.optional_boolean("strip_accents").value_or(lowercase),
          .lowercase = lowercase};
}

void read_wordpiece(const JsonObject& root, TokenizerFiles& files) {
  files.normalizer = read_normalizer(root.object("normalizer"));
  const JsonObject splitter = root.object("pre_tokenizer");
  check_type(splitter, "BertPreTokenizer");
  splitter.allow_only({"type"});
  const JsonObject object = root.object("model");
  object.allow_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  files.wordpiece = {.unknown_token = object.string("unk_token"),
                     .continuation_prefix = object.string("continuing_subword_prefix"),
                     .max_characters = object.integer("max_input_chars_per_word", 0, kMostId)};
  const JsonObject vocabulary = object.object("vocab");
  files.pieces.reserve(object.at("vocab").size());
  for (const auto& [text, id] : object.at("vocab").items()) {
    if (!is_id(id)) read_id(id, fmt::format("{}: '{}'", vocabulary.where(), text));  // throws
    files.pieces.push_back({text, id.get<std::int32_t>()});
  }
  if (!vocabulary.has(files.wordpiece.unknown_token))
    fail(ErrorKind::bad_file, "{}: the unk_token '{}' is not in it", vocabulary.where(), files.wordpiece.unknown_token);
}

AddedToken read_added_token(const JsonObject& object) {
  object.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return {.content = object.string("content"),
          .id = read_id(object.at("id"), object.where()),
          .single_word = object.boolean("single_word"),
          .lstrip = object.boolean("lstrip"),
          .rstrip = object.boolean("rstrip"),
          .normalized = object.boolean("normalized"),
          .special = object.boolean("special")};
}

// The definition numbers the tokens that are not in the vocabulary from its size on, in order of appearance, whatever
// the file says; a file that says something else has been edited.
void read_added_tokens(const JsonObject& root, const json& vocabulary, TokenizerFiles& files) {
  if (!is_said(root, "added_tokens")) return;
  const json& list = root.at("added_tokens");
  if (!list.is_array()) root.refuse("added_tokens", "an array");
  auto unseen = static_cast<std::int32_t>(vocabulary.size());
  std::map<std::int32_t, std::string> of_id;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonObject object(list[i], fmt::format("{}: added token {}", root.where(), i));
    const AddedToken token = read_added_token(object);
    const auto known = vocabulary.find(token.content);
    const std::int32_t id = known != vocabulary.end() ? known->get<std::int32_t>() : unseen++;
    if (id != token.id)
      fail(ErrorKind::bad_file, "{}: '{}' has id {}; accepted: {}, its place in the vocabulary", object.where(),
           token.content, token.id, id);
    if (const std::string& first = of_id.emplace(id, token.content).first->second; first != token.content)
      fail(ErrorKind::bad_file, "{}: '{}' has id {}, as '{}' has; accepted: an id of its own", object.where(),
           token.content, id, first);
    files.added.push_back(token);
  }
}

// The files of bert-base-uncased, gpt2 and roberta-base are from before models had a type: what else stands in them
// tells, as in the definition.
std::string model_type(const JsonObject& model) {
  if (model.has("type")) return model.string("type");
  if (model.has("vocab") && model.at("vocab").is_array()) return "Unigram";
  if (model.has("merges")) return "BPE";
  if (model.has("max_input_chars_per_word") || model.has("continuing_subword_prefix")) return "WordPiece";
  return model.string("type");  // throws
}

void read_truncation(const JsonObject& root, TokenizerFiles& files) {
  if (!is_said(root, "truncation")) return;
  const JsonObject object = root.object("truncation");
  if (object.string("direction", "Right") != "Right")
    files.cuts_left = fmt::format("{}: 'direction' is {}", object.where(), excerpt(object.at("direction")));
}

}  // namespace

TokenizerFiles read_tokenizer_json(const std::filesystem::path& file) {
  const json tree = read_json(file);
  const JsonObject root(tree, file.string());
  root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  if (root.string("version") != "1.0") root.refuse("version", "1.0");
  TokenizerFiles files;
  const JsonObject model = root.object("model");
  const std::string type = model_type(model);
  json of_pieces;
  if (type == "WordPiece") read_wordpiece(root, files);
  else if (type == "BPE") read_bpe(root, files);
  else if (type == "Unigram") of_pieces = ids_of_pieces(model), read_unigram(root, files);
  else fail(ErrorKind::unsupported, "{}: type {}; accepted: WordPiece, BPE, Unigram", model.where(), type);
  const json& vocabulary = files.unigram ? of_pieces : model.at("vocab");
  read_added_tokens(root, vocabulary, files);
  read_post_processor(root, files);
  read_decoder(root, vocabulary, files);
  read_words(root, files);
  read_truncation(root, files);
  return files;
}

}  // namespace stof
