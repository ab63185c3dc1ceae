// SPDX-License-Identifier: Apache-2.0
// vocab.txt, a token a line whose number is its id, with the options of tokenizer_config.json; and the choice between
// it and tokenizer.json.
#include <algorithm>
#include <array>
#include <map>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/file_map.h"
#include "src/model/file_names.h"
#include "src/model/json.h"
#include "src/model/sentence_config.h"
#include "src/model/tokenizer_config.h"
#include "src/model/tokenizer_files.h"
#include "src/model/unicode.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::map<std::string, std::int32_t, std::less<>>;

// As for the JSON files, and the largest known vocabularies have 256,000 tokens.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostLines = 4'000'000;

// A token that stands in two lines has the id of the later one.
Ids read_lines(const fs::path& file) {
  const FileMap map(file);
  std::string_view text = map.text();
  if (text.size() > kMostBytes)
    fail(ErrorKind::bad_file, "{}: {} bytes; accepted: at most {}", file.string(), text.size(), kMostBytes);
  if (const std::size_t invalid = unicode::find_invalid(text); invalid != std::string_view::npos)
    fail(ErrorKind::bad_file, "{}: not UTF-8 at byte {}", file.string(), invalid);
  Ids ids;
  for (std::int64_t line = 0; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view token = text.substr(0, end);
    while (!token.empty() && unicode::is_white_space(unicode::decode_last(token).scalar))  // as `tokenizers` reads it
      token.remove_suffix(unicode::decode_last(token).bytes);
    if (line == kMostLines)
      fail(ErrorKind::bad_file, "{}: more than {} lines; accepted: one for each token", file.string(), kMostLines);
    ids.insert_or_assign(std::string(token), static_cast<std::int32_t>(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ids;
}

void check_understood(const JsonObject& config) {
  if (!config.boolean("do_basic_tokenize", true)) config.refuse("do_basic_tokenize", "true");
  for (const std::string_view key : {"never_split", "additional_special_tokens", "extra_special_tokens"})
    if (config.has(key) && !config.at(key).empty()) config.refuse(key, "null or nothing in it");
}

// A special token is text, or an object with flags.
AddedToken read_special(const JsonObject& config, std::string_view key, std::string_view otherwise) {
  if (!config.has(key) || config.at(key).is_string()) return {.content = config.string(key, otherwise)};
  const JsonObject object = config.object(key);
  return {.content = object.string("content"),
          .single_word = object.boolean("single_word", false),
          .lstrip = object.boolean("lstrip", false),
          .rstrip = object.boolean("rstrip", false),
          .normalized = object.boolean("normalized", false)};
}

void check_no_others(const JsonObject& config, const TokenizerFiles& files) {
  if (!config.has("added_tokens_decoder")) return;
  const JsonObject decoder = config.object("added_tokens_decoder");
  for (const auto& entry : config.at("added_tokens_decoder").items()) {
    const std::string& id = entry.key();
    const JsonObject token(entry.value(), fmt::format("{}: {}", decoder.where(), id));
    const std::string content = token.string("content");
    const auto same = [&](const AddedToken& known) {
      return known.content == content && std::to_string(known.id) == id &&
             known.single_word == token.boolean("single_word", false) &&
             known.lstrip == token.boolean("lstrip", false) && known.rstrip == token.boolean("rstrip", false) &&
             known.normalized == token.boolean("normalized", false);
    };
    if (std::none_of(files.added.begin(), files.added.end(), same))
      fail(ErrorKind::unsupported,
           "{}: '{}' is not one of the tokens that {} names; accepted with vocab.txt: only these", token.where(),
           content, config.where());
  }
}

NormalizerOptions read_normalizer(const JsonObject& config) {
  const bool lowercase = config.boolean("do_lower_case", true);
  return {.clean_text = true,  // whatever `clean_text` says: transformers does not look at it
          .handle_chinese_chars = config.boolean("tokenize_chinese_chars", true),
          .strip_accents = config.optional_boolean("strip_accents").value_or(lowercase),
          .lowercase = lowercase};
}

struct SpecialToken {
  std::string_view key, otherwise;
};
constexpr std::array<SpecialToken, 5> kSpecialTokens{{{"unk_token", "[UNK]"},
                                                      {"sep_token", "[SEP]"},
                                                      {"pad_token", "[PAD]"},
                                                      {"cls_token", "[CLS]"},
                                                      {"mask_token", "[MASK]"}}};

TokenTexts texts_of(const TokenizerFiles& files) {
  std::vector<TokenTexts::Token> tokens;
  tokens.reserve(files.pieces.size() + files.added.size());
  for (const Piece& piece : files.pieces) tokens.push_back({.text = piece.text, .id = piece.id});
  for (const AddedToken& token : files.added)
    tokens.push_back({.text = token.content, .id = token.id, .special = true});
  return TokenTexts(tokens);
}

}  // namespace

TokenizerFiles read_vocabulary(const fs::path& vocabulary, const fs::path& config_file) {
  const json tree = is_there(config_file) ? read_json(config_file) : json::object();
  const JsonObject config(tree, config_file.string());
  check_understood(config);
  const Ids ids = read_lines(vocabulary);
  TokenizerFiles files{
      .normalizer = read_normalizer(config), .wordpiece = {}, .pieces = {}, .added = {}, .before = {}, .behind = {}};
  for (const auto& [text, id] : ids) files.pieces.push_back({text, id});
  for (const auto& [key, otherwise] : kSpecialTokens) {
    AddedToken token = read_special(config, key, otherwise);
    const auto found = ids.find(token.content);
    if (found == ids.end())
      fail(ErrorKind::bad_file, "{}: the {} '{}' is not in it", vocabulary.string(), key, token.content);
    token.id = found->second;
    if (key == "unk_token") files.wordpiece.unknown_token = token.content;
    if (key == "cls_token") files.before = {token.id};
    if (key == "sep_token") files.behind = {token.id};
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    if (std::none_of(files.added.begin(), files.added.end(), same)) files.added.push_back(token);
  }
  check_no_others(config, files);
  files.decoder = {
      .texts = std::make_shared<const TokenTexts>(texts_of(files)), .decoding = decoding::Pieces{}, .refusal = {}};
  return files;
}

namespace {

TokenizerFiles read_either(const fs::path& folder) {
  if (is_there(folder / file_names::kTokenizer)) return read_tokenizer_json(folder / file_names::kTokenizer);
  if (is_there(folder / file_names::kAddedTokens))
    fail(ErrorKind::unsupported, "{}: added_tokens.json beside vocab.txt is not read; accepted: tokenizer.json",
         folder.string());
  if (is_there(folder / file_names::kVocabulary)) {
    check_class_of_vocabulary(folder);
    return read_vocabulary(folder / file_names::kVocabulary, folder / file_names::kTokenizerConfig);
  }
  fail(ErrorKind::bad_file, "{}: {}", folder.string(),
       is_folder(folder)  ? "neither tokenizer.json nor vocab.txt"
       : is_there(folder) ? "not a folder; accepted: one with tokenizer.json or vocab.txt"
                          : "no such folder; accepted: one with tokenizer.json or vocab.txt");
}

// Where tokenizer_config.json names a side, that of tokenizer.json does not count.
void read_truncation_side(const fs::path& file, TokenizerFiles& files) {
  if (!is_there(file)) return;
  const json tree = read_json(file);
  const JsonObject config(tree, file.string());
  if (!config.has("truncation_side") || config.at("truncation_side").is_null()) return;
  const bool right = config.string("truncation_side") == "right";
  files.cuts_left =
      right ? "" : fmt::format("{}: 'truncation_side' is {}", file.string(), excerpt(config.at("truncation_side")));
}

}  // namespace

TokenizerFiles read_tokenizer_files(const fs::path& folder) {
  TokenizerFiles files = read_either(folder);
  check_tokenizer_config(folder, files);
  check_lower_case(folder, files.has_word_pieces() && files.normalizer.lowercase);
  read_truncation_side(folder / file_names::kTokenizerConfig, files);
  return files;
}

}  // namespace stof
