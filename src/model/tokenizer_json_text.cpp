// SPDX-License-Identifier: Apache-2.0
// The normalizer and the pre_tokenizer that stand before BPE in tokenizer.json: bytes of words, as GPT-2, Llama 3 or
// Qwen 2 split them, or characters of a text whose spaces are marked.
#include "src/base/error.h"
#include "src/model/tokenizer_json.h"

namespace stof {
namespace {

using nlohmann::json;

// None, null, or a Sequence of nothing.
bool is_without_normalizer(const JsonObject& root) {
  if (!is_said(root, "normalizer")) return true;
  return root.at("normalizer") == json{{"type", "Sequence"}, {"normalizers", json::array()}};
}

bool read_prefix(const JsonObject& splitter) {
  check_type(splitter, "ByteLevel");
  splitter.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return splitter.boolean("add_prefix_space");
}

WordSplit read_split(const JsonObject& splitter) {
  check_type(splitter, "Split");
  splitter.allow_only({"type", "pattern", "behavior", "invert"});
  if (splitter.string("behavior") != "Isolated") refuse(splitter, "behavior", "Isolated");
  if (splitter.boolean("invert")) refuse(splitter, "invert", "false");
  const json& pattern = splitter.at("pattern");
  if (pattern == json{{"Regex", kLlama3Expression}}) return WordSplit::llama3;
  if (pattern == json{{"Regex", kQwen2Expression}}) return WordSplit::qwen2;
  if (pattern == json{{"Regex", kGpt4oExpression}}) return WordSplit::gpt4o;
  // Expressions differ deep inside, and are shown in full.
  constexpr std::size_t kLongest = 500;
  fail(
      ErrorKind::unsupported,
      "{}: 'pattern' is {}; accepted: Llama 3's {{\"Regex\":{}}}, Qwen 2's {{\"Regex\":{}}}, GPT-4o's {{\"Regex\":{}}}",
      splitter.where(), excerpt(pattern, kLongest), json(kLlama3Expression).dump(), json(kQwen2Expression).dump(),
      json(kGpt4oExpression).dump());
}

// Split, which makes the words, and ByteLevel, which only says that their bytes are merged.
WordSplit read_sequence(const JsonObject& sequence) {
  sequence.allow_only({"type", "pretokenizers"});
  const json& list = sequence.at("pretokenizers");
  constexpr std::string_view kAccepted = "an array of a Split and a ByteLevel";
  if (!list.is_array()) sequence.refuse("pretokenizers", kAccepted);
  if (list.size() != 2) refuse(sequence, "pretokenizers", kAccepted);
  const auto part = [&](std::size_t i) {
    return JsonObject(list[i], fmt::format("{}: pretokenizer {}", sequence.where(), i));
  };
  const WordSplit split = read_split(part(0));
  const JsonObject bytes = part(1);
  if (read_prefix(bytes)) refuse(bytes, "add_prefix_space", "false behind a Split");
  if (bytes.boolean("use_regex")) refuse(bytes, "use_regex", "false behind a Split");
  return split;
}

ByteLevelOptions read_words(const JsonObject& splitter) {
  ByteLevelOptions options;
  if (splitter.string("type") == "Sequence") {
    options.split = read_sequence(splitter);
    return options;
  }
  options.add_prefix_space = read_prefix(splitter);
  if (!splitter.boolean("use_regex", true)) refuse(splitter, "use_regex", "true");
  return options;
}

TextForm read_form_of_words(const JsonObject& root) {
  if (is_without_normalizer(root)) return TextForm::as_is;
  if (root.at("normalizer") != json{{"type", "NFC"}})
    refuse(root, "normalizer", R"(null, {"type":"NFC"} with a model of type BPE)");
  return TextForm::composed;
}

Prepend read_metaspace(const JsonObject& splitter) {
  const std::string scheme = read_prepend_scheme(splitter);
  if (scheme == "never") return Prepend::never;
  return scheme == "first" ? Prepend::first : Prepend::always;
}

json replacing_spaces() { return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}}; }

// Without a pre_tokenizer the normalizer marks spaces.
void check_marks(const JsonObject& root) {
  const json prepend = {{"type", "Prepend"}, {"prepend", kSpaceMark}}, replace = replacing_spaces();
  const json marks = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
  if (root.at("normalizer") != marks)
    refuse(root, "normalizer", fmt::format("{} where 'pre_tokenizer' is null", marks.dump()));
}

// As Gemma's: splits at spaces, of which the normalizer has left none.
void check_split_at_spaces(const JsonObject& root, const JsonObject& splitter) {
  splitter.allow_only({"type", "pattern", "behavior", "invert"});
  const json space = {{"String", " "}};
  if (splitter.at("pattern") != space) refuse(splitter, "pattern", fmt::format("{} by itself", space.dump()));
  if (splitter.string("behavior") != "MergedWithPrevious") refuse(splitter, "behavior", "MergedWithPrevious");
  if (splitter.boolean("invert")) refuse(splitter, "invert", "false");
  if (!root.has("normalizer") || root.at("normalizer") != replacing_spaces())
    refuse(root, "normalizer", fmt::format("{} before a Split at spaces", replacing_spaces().dump()));
}

}  // namespace

// Older files say add_prefix_space beside the scheme, or in its place; false is never, and the definition refuses
// others.
std::string read_prepend_scheme(const JsonObject& metaspace) {
  metaspace.allow_only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  if (metaspace.string("replacement") != kSpaceMark) refuse(metaspace, "replacement", kSpaceMark);
  const std::string scheme = metaspace.string("prepend_scheme", "always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    refuse(metaspace, "prepend_scheme", "always, first, never");
  if (!metaspace.optional_boolean("add_prefix_space").value_or(true) && scheme != "never")
    refuse(metaspace, "add_prefix_space", "true, unless prepend_scheme is never");
  return scheme;
}

void read_bpe_text(const JsonObject& root, TokenizerFiles& files) {
  if (!is_said(root, "pre_tokenizer")) {
    check_marks(root);
    files.form = TextForm::marked;
    files.character_level.emplace();
    return;
  }
  const JsonObject splitter = root.object("pre_tokenizer");
  const std::string type = splitter.string("type");
  if (type == "Metaspace") {
    if (!is_without_normalizer(root)) refuse(root, "normalizer", "null before a Metaspace");
    files.metaspace = read_metaspace(splitter);
    files.splits_at_marks = splitter.boolean("split", true);  // as the definition has it where nothing is said
    files.character_level.emplace();
    return;
  }
  if (type == "Split") {
    check_split_at_spaces(root, splitter);
    files.form = TextForm::marked_spaces;
    files.character_level.emplace();
    return;
  }
  if (type != "ByteLevel" && type != "Sequence")
    fail(ErrorKind::unsupported, "{}: type {}; accepted: ByteLevel, Sequence, Split, Metaspace", splitter.where(),
         type);
  files.form = read_form_of_words(root);
  files.byte_level = read_words(splitter);
}

}  // namespace stof
