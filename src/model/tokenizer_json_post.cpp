// SPDX-License-Identifier: Apache-2.0
// The post_processor of tokenizer.json: which ids stand around every text.
#include "src/base/error.h"
#include "src/model/tokenizer_files.h"
#include "src/model/tokenizer_json.h"

namespace stof {
namespace {

using nlohmann::json;

// "single": the sequence A once, special tokens around it, all of type 0.
void read_template(const JsonObject& object, TokenizerFiles& files) {
  object.allow_only({"type", "single", "pair", "special_tokens"});
  const JsonObject tokens = object.object("special_tokens");
  const json& parts = object.at("single");
  if (!parts.is_array()) object.refuse("single", "an array");
  bool seen_text = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const JsonObject part(parts[i], fmt::format("{}: single: part {}", object.where(), i));
    part.allow_only({"SpecialToken", "Sequence"});
    const bool is_text = part.has("Sequence");
    const JsonObject inner = part.object(is_text ? "Sequence" : "SpecialToken");
    inner.integer("type_id", 0, 0);
    const std::string name = inner.string("id");
    if (is_text) {
      if (name != "A" || seen_text) inner.refuse("id", "A, once");
      seen_text = true;
      continue;
    }
    const JsonObject token = tokens.object(name);
    if (!token.at("ids").is_array()) token.refuse("ids", "an array of ids");
    for (const json& id : token.at("ids"))
      (seen_text ? files.behind : files.before).push_back(read_id(id, token.where()));
  }
  if (!seen_text) object.refuse("single", "a template with the sequence A");
}

// ["[SEP]", 102]
std::int32_t read_named_id(const JsonObject& object, std::string_view key) {
  const json& pair = object.at(key);
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
    object.refuse(key, "an array of a token and its id");
  return read_id(pair[1], object.where());
}

void read_processor(const JsonObject& object, TokenizerFiles& files) {
  const std::string type = object.string("type");
  if (type == "TemplateProcessing") return read_template(object, files);
  if (type == "ByteLevel") return object.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (type == "BertProcessing") object.allow_only({"type", "sep", "cls"});
  else if (type == "RobertaProcessing") object.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  else
    fail(ErrorKind::unsupported,
         "{}: type {}; accepted: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence",
         object.where(), type);
  files.before.push_back(read_named_id(object, "cls"));
  files.behind.push_back(read_named_id(object, "sep"));
}

// ByteLevel moves offsets alone. What a second template makes of the first one's parts is nothing that a checkpoint
// needs.
void read_sequence(const JsonObject& object, TokenizerFiles& files) {
  object.allow_only({"type", "processors"});
  const json& list = object.at("processors");
  if (!list.is_array()) object.refuse("processors", "an array");
  bool seen = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonObject processor(list[i], fmt::format("{}: processor {}", object.where(), i));
    const std::string type = processor.string("type");
    const bool moves_offsets = type == "ByteLevel";
    if (!moves_offsets && (seen || type != "TemplateProcessing"))
      fail(ErrorKind::unsupported, "{}: type {}; accepted: ByteLevel, and one TemplateProcessing", processor.where(),
           type);
    seen = seen || !moves_offsets;
    read_processor(processor, files);
  }
}

}  // namespace

void read_post_processor(const JsonObject& root, TokenizerFiles& files) {
  if (!is_said(root, "post_processor")) return;
  const JsonObject object = root.object("post_processor");
  if (object.string("type") == "Sequence") read_sequence(object, files);
  else read_processor(object, files);
}

}  // namespace stof
