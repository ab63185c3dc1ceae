// SPDX-License-Identifier: Apache-2.0
// The model BPE of tokenizer.json: of bytes, or of characters.
#include <optional>
#include <unordered_map>

#include "src/base/error.h"
#include "src/model/tokenizer_json.h"
#include "src/model/unicode.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string_view, std::int32_t>;

// Options that change ids, each with the values that mean "not used".
void check_unused(const JsonObject& model) {
  const auto is_null = [&](std::string_view key) { return !model.has(key) || model.at(key).is_null(); };
  if (!is_null("dropout") && model.at("dropout") != 0) refuse(model, "dropout", "null, 0");
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!is_null(key) && model.at(key) != "") refuse(model, key, R"(null, "")");
}

Ids read_vocabulary(const JsonObject& vocabulary, const json& tokens) {
  Ids ids;
  ids.reserve(tokens.size());
  for (const auto& [token, id] : tokens.items()) {
    if (!is_id(id)) read_id(id, fmt::format("{}: '{}'", vocabulary.where(), token));  // throws
    ids.emplace(token, id.get<std::int32_t>());
  }
  return ids;
}

std::array<std::int32_t, 256> read_bytes(const JsonObject& vocabulary, const Ids& ids) {
  std::array<std::int32_t, 256> bytes{};
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    const std::string token = ByteLevel::token_of(static_cast<unsigned char>(byte));
    const auto found = ids.find(token);
    if (found == ids.end())
      fail(ErrorKind::bad_file, "{}: '{}' for byte {} is missing; accepted: a vocabulary with every byte",
           vocabulary.where(), token, byte);
    bytes[byte] = found->second;
  }
  return bytes;
}

// Of a token that is not empty.
Ends ends_of(std::string_view token) {
  return {.first = unicode::decode(token.data()).scalar, .last = unicode::decode_last(token).scalar};
}

class MergeReader {
 public:
  MergeReader(const JsonObject& model, const Ids& ids) : model_(model), ids_(ids) {}

  // Tells `joints`, if there are any, where merges join tokens.
  std::vector<Merge> read(Joints* joints = nullptr) {
    const json& list = model_.at("merges");
    if (!list.is_array()) model_.refuse("merges", "an array");
    std::vector<Merge> merges;
    merges.reserve(list.size());
    for (; merges.size() < list.size(); ++line_) {
      const auto [left, right] = pair_of(list[merges.size()]);
      merged_.assign(left).append(right);
      if (joints && !left.empty() && !right.empty()) joints->add(ends_of(left).last, ends_of(right).first);
      merges.push_back({.left = id(left), .right = id(right), .merged = id(merged_)});
    }
    return merges;
  }

 private:
  // "a b", or ["a", "b"] as newer files have it.
  std::pair<std::string_view, std::string_view> pair_of(const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != text.npos && text.find(' ', space + 1) == text.npos)
        return {text.substr(0, space), text.substr(space + 1)};
    }
    fail(ErrorKind::bad_file, "{}: merges: {} is {}; accepted: two tokens", model_.where(), line_, excerpt(merge));
  }

  std::int32_t id(std::string_view token) const {
    if (const auto found = ids_.find(token); found != ids_.end()) return found->second;
    fail(ErrorKind::bad_file, "{}: merges: {}: '{}' is not in the vocabulary", model_.where(), line_, token);
  }

  const JsonObject& model_;
  const Ids& ids_;
  std::size_t line_ = 0;
  std::string merged_;
};

void read_byte_level(const JsonObject& model, const Ids& ids, ByteLevelOptions& options) {
  if (model.boolean("byte_fallback", false)) refuse(model, "byte_fallback", "false");
  options.bytes = read_bytes(model.object("vocab"), ids);
  options.merges = MergeReader(model, ids).read();
}

// None: dropped.
std::optional<UnknownToken> read_unknown(const JsonObject& model, const Ids& ids) {
  if (!model.has("unk_token") || model.at("unk_token").is_null()) return {};
  const std::string token = model.string("unk_token");
  if (token.empty()) model.refuse("unk_token", "null, or a token that is not empty");
  if (const auto found = ids.find(token); found != ids.end())
    return UnknownToken{.id = found->second, .ends = ends_of(token)};
  fail(ErrorKind::bad_file, "{}: vocab: the unk_token '{}' is not in it", model.where(), token);
}

void read_character_level(const JsonObject& model, const Ids& ids, CharacterLevelOptions& options) {
  if (model.boolean("ignore_merges", false)) refuse(model, "ignore_merges", "false");
  for (const auto& [token, id] : ids)
    if (!token.empty() && unicode::decode(token.data()).bytes == token.size())
      options.characters.emplace(unicode::decode(token.data()).scalar, id);
  const bool falls_back = model.boolean("byte_fallback", false);
  for (std::size_t byte = 0; byte < options.bytes.size(); ++byte) {
    const auto found = falls_back ? ids.find(fmt::format("<0x{:02X}>", byte)) : ids.end();
    options.bytes[byte] = found == ids.end() ? CharacterLevelOptions::kMissing : found->second;
  }
  options.unknown = read_unknown(model, ids);
  options.fuse_unknown = model.boolean("fuse_unk", false);
  options.merges = MergeReader(model, ids).read(&options.joints);
}

}  // namespace

void read_bpe(const JsonObject& root, TokenizerFiles& files) {
  read_bpe_text(root, files);
  const JsonObject model = root.object("model");
  // With bytes unk_token and fuse_unk say nothing: every byte has a token.
  model.allow_only({"type", "unk_token", "fuse_unk", "dropout", "continuing_subword_prefix", "end_of_word_suffix",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  check_unused(model);
  const Ids ids = read_vocabulary(model.object("vocab"), model.at("vocab"));
  if (files.byte_level) read_byte_level(model, ids, *files.byte_level);
  else read_character_level(model, ids, *files.character_level);
}

void read_words(const JsonObject& root, TokenizerFiles& files) {
  const JsonObject model = root.object("model");
  if (!files.byte_level || !model.boolean("ignore_merges", false)) return;
  const std::vector<TokenTexts::Token> tokens = tokens_of(model.at("vocab"));
  for (const TokenTexts::Token& token : tokens)
    if (const std::string_view text = files.decoder.texts->find(token.id)->text; text != token.text)
      fail(ErrorKind::bad_file, "{}: vocab: '{}' has id {}, as '{}' has; accepted: an id of its own", model.where(),
           token.text, token.id, text);
  files.byte_level->words = ByteWords(files.decoder.texts, tokens);
}

}  // namespace stof
