// SPDX-License-Identifier: Apache-2.0
// The parts of tokenizer.json that byte-level BPE has in place of BERT's.
#include <unordered_map>

#include "src/base/error.h"
#include "src/model/tokenizer_json.h"

namespace stof {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string_view, std::int32_t>;

void refuse(const JsonObject& object, std::string_view key, std::string_view accepted) {
  fail(ErrorKind::unsupported, "{}: '{}' is {}; accepted: {}", object.where(), key, excerpt(object.at(key)), accepted);
}

// Options that change ids, each with the values that mean "not used".
void check_unused(const JsonObject& model) {
  const auto is_null = [&](std::string_view key) { return !model.has(key) || model.at(key).is_null(); };
  if (!is_null("dropout") && model.at("dropout") != 0) refuse(model, "dropout", "null, 0");
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!is_null(key) && model.at(key) != "") refuse(model, key, R"(null, "")");
  for (const std::string_view key : {"byte_fallback", "ignore_merges"})
    if (model.boolean(key, false)) refuse(model, key, "false");
}

bool read_split(const JsonObject& splitter) {
  check_type(splitter, "ByteLevel");
  splitter.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (!splitter.boolean("use_regex", true)) refuse(splitter, "use_regex", "true");
  return splitter.boolean("add_prefix_space");
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

class MergeReader {
 public:
  MergeReader(const JsonObject& model, const Ids& ids) : model_(model), ids_(ids) {}

  std::vector<Merge> read() {
    const json& list = model_.at("merges");
    if (!list.is_array()) model_.refuse("merges", "an array");
    std::vector<Merge> merges;
    merges.reserve(list.size());
    for (; merges.size() < list.size(); ++line_) {
      const auto [left, right] = pair_of(list[merges.size()]);
      merged_.assign(left).append(right);
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

}  // namespace

bool reads_composed(const JsonObject& root) {
  const json& normalizer = root.at("normalizer");
  if (normalizer.is_null()) return false;
  if (normalizer != json{{"type", "NFC"}})
    refuse(root, "normalizer", R"(null, {"type":"NFC"} with a model of type BPE)");
  return true;
}

ByteLevelOptions read_byte_level(const JsonObject& root) {
  const bool add_prefix_space = read_split(root.object("pre_tokenizer"));
  const JsonObject model = root.object("model");
  // The first two say what becomes of characters that have no token; every byte has one.
  model.allow_only({"type", "unk_token", "fuse_unk", "dropout", "continuing_subword_prefix", "end_of_word_suffix",
                    "byte_fallback", "ignore_merges", "vocab", "merges"});
  check_unused(model);
  const JsonObject vocabulary = model.object("vocab");
  const Ids ids = read_vocabulary(vocabulary, model.at("vocab"));
  return {.bytes = read_bytes(vocabulary, ids),
          .merges = MergeReader(model, ids).read(),
          .add_prefix_space = add_prefix_space};
}

}  // namespace stof
