// SPDX-License-Identifier: Apache-2.0
// The decoder of tokenizer.json, and the texts of its tokens.
#include "src/base/error.h"
#include "src/model/tokenizer_json.h"

namespace stof {
namespace {

using nlohmann::json;

decoding::ByteFallback read_sequence(const JsonObject& object) {
  object.allow_only({"type", "decoders"});
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}};
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  const json without = json::array({replace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  json with = without;
  with.push_back(strip);
  const json& decoders = object.at("decoders");
  if (decoders != with && decoders != without)
    refuse(object, "decoders", fmt::format("{}, or without the last", with.dump()));
  return {.strips_space = decoders == with};
}

decoding::Metaspace read_metaspace(const JsonObject& object) {
  return {.drops_first = read_prepend_scheme(object) != "never"};
}

decoding::Pieces read_pieces(const JsonObject& object) {
  object.allow_only({"type", "prefix", "cleanup"});
  return {.prefix = object.string("prefix"), .cleanup = object.boolean("cleanup")};
}

Decoding read_decoding(const JsonObject& root) {
  if (!is_said(root, "decoder")) return decoding::Spaced{};
  const JsonObject object = root.object("decoder");
  const std::string type = object.string("type");
  if (type == "Sequence") return read_sequence(object);
  if (type == "Metaspace") return read_metaspace(object);
  if (type == "WordPiece") return read_pieces(object);
  if (type != "ByteLevel")
    fail(ErrorKind::unsupported, "{}: type {}; accepted: ByteLevel, Sequence, Metaspace, WordPiece", object.where(),
         type);
  object.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // which say nothing here
  return decoding::Bytes{};
}

TokenTexts read_texts(const json& vocabulary, const std::vector<AddedToken>& added) {
  std::vector<TokenTexts::Token> tokens = tokens_of(vocabulary);
  for (const AddedToken& token : added)
    tokens.push_back({.text = token.content, .id = token.id, .special = token.special});
  return TokenTexts(tokens);
}

}  // namespace

std::vector<TokenTexts::Token> tokens_of(const json& vocabulary) {
  std::vector<TokenTexts::Token> tokens;
  tokens.reserve(vocabulary.size());
  for (const auto& [text, id] : vocabulary.items()) tokens.push_back({.text = text, .id = id.get<std::int32_t>()});
  return tokens;
}

void read_decoder(const JsonObject& root, const json& vocabulary, TokenizerFiles& files) {
  files.decoder.texts = std::make_shared<const TokenTexts>(read_texts(vocabulary, files.added));
  try {
    files.decoder.decoding = read_decoding(root);
  } catch (const Error& error) {
    files.decoder.refusal = error.what();
  }
}

}  // namespace stof
