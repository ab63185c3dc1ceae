// SPDX-License-Identifier: Apache-2.0
#include "src/model/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <set>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/file_names.h"
#include "src/model/json.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<std::string_view, 7> kNamed{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

struct NamedTree {
  fs::path path;
  json tree = json::object();

  explicit NamedTree(const fs::path& file) : path(file) {
    if (is_there(file)) tree = read_json(file);
  }
  JsonObject object() const { return {tree, path.string()}; }
};

// The class that transformers takes where no file names one.
std::string_view class_of_model(const std::string& model_type) {
  if (model_type == "bert" || model_type == "distilbert") return "BertTokenizer";
  if (model_type == "roberta" || model_type == "longformer") return "RobertaTokenizer";
  if (model_type == "xlm-roberta") return "XLMRobertaTokenizer";
  if (model_type == "mpnet") return "MPNetTokenizer";
  if (model_type == "t5" || model_type == "mt5") return "T5Tokenizer";
  if (model_type == "gpt2") return "GPT2Tokenizer";
  if (model_type == "qwen2" || model_type == "qwen3") return "Qwen2Tokenizer";
  return "";
}

// The same class does what its name with Fast behind it does, and Longformer's is RoBERTa's.
std::string usual_name(std::string name) {
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  return name == "LongformerTokenizer" ? "RobertaTokenizer" : name;
}

// tokenizer_config.json comes before config.json.
std::string class_of(const NamedTree& tokenizer, const NamedTree& model) {
  for (const NamedTree* file : {&tokenizer, &model})
    if (is_said(file->object(), "tokenizer_class")) return usual_name(file->object().string("tokenizer_class"));
  return is_said(model.object(), "model_type") ? std::string(class_of_model(model.object().string("model_type"))) : "";
}

class Checks {
 public:
  Checks(const fs::path& folder, const TokenizerFiles& files)
      : files_(files),
        is_json_(is_there(folder / file_names::kTokenizer)),
        tokenizer_(folder / file_names::kTokenizerConfig),
        special_(folder / file_names::kSpecialTokens),
        added_(folder / file_names::kAddedTokens),
        class_(class_of(tokenizer_, NamedTree(folder / file_names::kConfig))) {
    if (class_.empty() && !is_json_) class_ = "BertTokenizer";
    for (const AddedToken& token : files.added) known_.insert(token.content);
    // Where it is there, transformers does not read the two files besides.
    if (!tokenizer_.object().has("added_tokens_decoder")) return;
    special_.tree = added_.tree = json::object();
  }

  void run() const {
    const JsonObject config = tokenizer_.object();
    if (config.optional_boolean("split_special_tokens").value_or(false))
      refuse(config, "split_special_tokens", "false");
    if (is_json_) check_options();
    check_listed();
    check_named();
    check_around();
  }

 private:
  // `theirs`: what tokenizer.json says under a name of its own. Keys that are not there contradict nothing.
  void check_option(std::string_view key, std::string_view their_key, bool theirs) const {
    const JsonObject config = tokenizer_.object();
    const std::optional<bool> said = config.optional_boolean(key);
    if (said && *said != theirs)
      fail(ErrorKind::unsupported, "{}: '{}' is {}, and '{}' of tokenizer.json is {}; accepted: the same in both",
           config.where(), key, *said, their_key, theirs);
  }
  // Other classes take tokenizer.json as it is.
  void check_options() const {
    const bool of_bert = class_ == "BertTokenizer" || class_ == "DistilBertTokenizer" || class_ == "ElectraTokenizer" ||
                         class_ == "MPNetTokenizer";
    if (of_bert && files_.has_word_pieces()) {
      check_option("do_lower_case", "lowercase", files_.normalizer.lowercase);
      check_option("strip_accents", "strip_accents", files_.normalizer.strip_accents);
      check_option("tokenize_chinese_chars", "handle_chinese_chars", files_.normalizer.handle_chinese_chars);
    }
    const bool of_bytes = class_ == "GPT2Tokenizer" || class_ == "RobertaTokenizer" || class_ == "Qwen2Tokenizer";
    if (of_bytes && files_.byte_level)
      check_option("add_prefix_space", "add_prefix_space", files_.byte_level->add_prefix_space);
  }

  // A token is text, or an object with flags.
  static std::string text_of(const json& token, const std::string& where) {
    return token.is_string() ? token.get<std::string>() : JsonObject(token, where).string("content");
  }
  void check_added(const std::string& token, const std::string& where) const {
    if (!known_.contains(token))
      fail(ErrorKind::unsupported, "{}: '{}' is not an added token of {}; accepted: one that is", where, token,
           is_json_ ? file_names::kTokenizer : file_names::kVocabulary);
  }
  void check_list(const JsonObject& object, std::string_view key) const {
    if (!is_said(object, key)) return;
    const json& list = object.at(key);
    if (!list.is_structured()) object.refuse(key, "an array or an object of tokens");
    const std::string where = fmt::format("{}: {}", object.where(), key);
    for (const json& token : list) check_added(text_of(token, where), where);
  }
  void check_listed() const {
    for (const NamedTree* file : {&tokenizer_, &special_})
      for (const std::string_view key : {"extra_special_tokens", "additional_special_tokens"})
        check_list(file->object(), key);
    check_list(tokenizer_.object(), "added_tokens_decoder");
    for (const auto& [token, id] : added_.tree.items()) check_added(token, added_.path.string());
  }

  // Transformers adds those that are no tokens at all.
  void check_named() const {
    for (const NamedTree* file : {&tokenizer_, &special_})
      for (const std::string_view key : kNamed) {
        const JsonObject object = file->object();
        if (!is_said(object, key)) continue;
        const std::string token = text_of(object.at(key), fmt::format("{}: {}", object.where(), key));
        if (!known_.contains(token) && !files_.decoder.texts->has(token))
          fail(ErrorKind::unsupported, "{}: '{}' is '{}', which is no token of {}; accepted: one that is",
               object.where(), key, token, is_json_ ? file_names::kTokenizer : file_names::kVocabulary);
      }
  }

  // These classes put the tokens that are named cls and sep around texts, whatever tokenizer.json says.
  void check_around() const {
    for (const std::string_view known :
         {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "RobertaTokenizer", "MPNetTokenizer"})
      if (class_ == known) {
        check_end("cls_token", files_.before);
        check_end("sep_token", files_.behind);
      }
  }
  void check_end(std::string_view key, const std::vector<std::int32_t>& ids) const {
    const JsonObject object = is_said(special_.object(), key) ? special_.object() : tokenizer_.object();
    if (!is_said(object, key) || ids.size() != 1) return;
    const std::string token = text_of(object.at(key), fmt::format("{}: {}", object.where(), key));
    const std::optional<TokenTexts::Token> there = files_.decoder.texts->find(ids[0]);
    if (there && there->text != token)
      fail(ErrorKind::unsupported, "{}: '{}' is '{}', and '{}' stands around texts; accepted: the same", object.where(),
           key, token, there->text);
  }

  const TokenizerFiles& files_;
  bool is_json_;
  NamedTree tokenizer_, special_, added_;
  std::string class_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

void check_tokenizer_config(const fs::path& folder, const TokenizerFiles& files) { Checks(folder, files).run(); }

void check_class_of_vocabulary(const fs::path& folder) {
  const NamedTree tokenizer(folder / file_names::kTokenizerConfig), model(folder / file_names::kConfig);
  const NamedTree& names = is_said(tokenizer.object(), "tokenizer_class") ? tokenizer : model;
  const JsonObject object = names.object();
  constexpr std::array<std::string_view, 3> kAccepted{"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"};
  if (is_said(object, "tokenizer_class"))
    if (const std::string name = usual_name(object.string("tokenizer_class"));
        std::find(kAccepted.begin(), kAccepted.end(), name) == kAccepted.end())
      fail(ErrorKind::unsupported, "{}: 'tokenizer_class' is {}; accepted with vocab.txt: {}, also with Fast behind",
           object.where(), excerpt(object.at("tokenizer_class")), fmt::join(kAccepted, ", "));
  if (!is_said(tokenizer.object(), "auto_map")) return;
  const JsonObject programs = tokenizer.object().object("auto_map");
  if (is_said(programs, "AutoTokenizer"))
    fail(ErrorKind::unsupported, "{}: 'AutoTokenizer' is {}; accepted with vocab.txt: null", programs.where(),
         excerpt(programs.at("AutoTokenizer")));
}

}  // namespace stof
