// SPDX-License-Identifier: Apache-2.0
// The model Unigram of tokenizer.json, with what stands before it as in XLM-RoBERTa: SentencePiece's map of characters,
// runs of spaces made one, words at white space whose beginnings are marked.
#include <cmath>

#include "src/base/error.h"
#include "src/model/tokenizer_json.h"

namespace stof {
namespace {

using nlohmann::json;

std::string from_base64(const std::string& text, const JsonObject& object, std::string_view key) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string_view digits = text;
  for (int padding = 0; padding < 2 && digits.ends_with('='); ++padding) digits.remove_suffix(1);
  std::string bytes;
  bytes.reserve(digits.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : digits) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) object.refuse(key, "base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  if (text.size() % 4 != 0) object.refuse(key, "base64");
  return bytes;
}

std::shared_ptr<const CharacterMap> read_map(const JsonObject& object) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  check_type(object, "Precompiled");
  object.allow_only({"type", kKey});
  return std::make_shared<const CharacterMap>(from_base64(object.string(kKey), object, kKey),
                                              fmt::format("{}: {}", object.where(), kKey));
}

json replacing_runs(std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", content}};
}

// A map, or a Sequence of one and of what SentencePiece does to spaces besides.
void read_normalizer(const JsonObject& root, SentenceForm& form) {
  if (!is_said(root, "normalizer")) return;
  const JsonObject object = root.object("normalizer");
  if (object.string("type") != "Sequence") {
    form.map = read_map(object);
    return;
  }
  object.allow_only({"type", "normalizers"});
  const json& list = object.at("normalizers");
  if (!list.is_array()) object.refuse("normalizers", "an array");
  const json strip = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i == 0 && list[i].is_object() && list[i].value("type", json()) == "Precompiled")
      form.map = read_map(JsonObject(list[i], fmt::format("{}: normalizer {}", object.where(), i)));
    else if (list[i] == strip && form.run.empty()) form.strips_end = true;
    else if (list[i] == replacing_runs(" ") && i + 1 == list.size()) form.run = " ";
    else if (list[i] == replacing_runs(kSpaceMark) && i + 1 == list.size()) form.run = kSpaceMark;
    else
      fail(ErrorKind::unsupported,
           "{}: normalizer {} is {}; accepted: Precompiled, {}, {} or with a space, in this order", object.where(), i,
           excerpt(list[i]), strip.dump(), replacing_runs(kSpaceMark).dump());
  }
}

Prepend read_marks(const JsonObject& metaspace) {
  check_type(metaspace, "Metaspace");
  const std::string scheme = read_prepend_scheme(metaspace);
  if (scheme == "first") refuse(metaspace, "prepend_scheme", "always, never with a model of type Unigram");
  return scheme == "never" ? Prepend::never : Prepend::always;
}

void read_splitter(const JsonObject& root, TokenizerFiles& files) {
  const JsonObject splitter = root.object("pre_tokenizer");
  const auto metaspace = [&](const JsonObject& object) {
    files.metaspace = read_marks(object);
    files.splits_at_marks = object.boolean("split", true);
  };
  if (splitter.string("type") == "Metaspace") return metaspace(splitter);
  check_type(splitter, "Sequence");
  splitter.allow_only({"type", "pretokenizers"});
  const json& list = splitter.at("pretokenizers");
  constexpr std::string_view kAccepted = "an array of a WhitespaceSplit and a Metaspace";
  if (!list.is_array()) splitter.refuse("pretokenizers", kAccepted);
  if (list.size() != 2 || list[0] != json{{"type", "WhitespaceSplit"}}) refuse(splitter, "pretokenizers", kAccepted);
  files.splits_at_white_space = true;
  metaspace(JsonObject(list[1], fmt::format("{}: pretokenizer 1", splitter.where())));
}

}  // namespace

json ids_of_pieces(const JsonObject& model) {
  const json& list = model.at("vocab");
  constexpr std::string_view kAccepted = "an array of pieces with scores";
  if (!list.is_array() || list.empty()) model.refuse("vocab", kAccepted);
  json ids = json::object();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& piece = list[i];
    const bool fits = piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number() &&
                      std::isfinite(piece[1].get<double>());
    if (!fits)
      fail(ErrorKind::bad_file, "{}: vocab: {} is {}; accepted: a piece and its score", model.where(), i,
           excerpt(piece));
    if (!ids.emplace(piece[0].get<std::string>(), static_cast<std::uint32_t>(i)).second)
      fail(ErrorKind::bad_file, "{}: vocab: {} is {}, which stands before; accepted: each piece once", model.where(), i,
           excerpt(piece));
  }
  return ids;
}

void read_unigram(const JsonObject& root, TokenizerFiles& files) {
  read_normalizer(root, files.sentence_form.emplace());
  read_splitter(root, files);
  const JsonObject model = root.object("model");
  model.allow_only({"type", "unk_id", "vocab", "byte_fallback"});
  if (model.boolean("byte_fallback", false)) refuse(model, "byte_fallback", "false");
  const json& list = model.at("vocab");
  UnigramOptions& options = files.unigram.emplace();
  for (const json& piece : list) {
    if (const auto& text = piece[0].get_ref<const std::string&>(); !text.empty())
      options.pieces.push_back({text, static_cast<std::int32_t>(options.scores.size())});
    options.scores.push_back(piece[1].get<double>());
  }
  options.unknown = static_cast<std::int32_t>(model.integer("unk_id", 0, std::ssize(list) - 1));
}

}  // namespace stof
