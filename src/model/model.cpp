// SPDX-License-Identifier: Apache-2.0
#include "src/model/model.h"

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/gemma_norms.h"
#include "src/model/relative_positions.h"
#include "src/model/t5_sums.h"
#include "src/model/weight_files.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

std::string_view prefix_of(Family family) {
  switch (family) {
    case Family::bert: return "bert.";
    case Family::roberta: return "roberta.";
    case Family::distilbert: return "distilbert.";
    case Family::longformer: return "longformer.";
    case Family::gpt2: return "transformer.";
    case Family::modernbert:
    case Family::llama:
    case Family::gemma:
    case Family::eurobert: return "model.";
    case Family::nomic: return "nomic_bert.";
    case Family::mpnet: return "mpnet.";
    case Family::t5: return "transformer.";
  }
  return "";
}

// Names as the family's base model has them: without the prefix of the task models, and with the weight and bias that
// layer norms of checkpoints converted from TensorFlow call gamma and beta.
std::string canonical(std::string_view name, Family family) {
  const std::string_view prefix = prefix_of(family);
  std::string result(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
  for (const auto& [old_end, end] :
       {std::pair{".LayerNorm.gamma", ".LayerNorm.weight"}, std::pair{".LayerNorm.beta", ".LayerNorm.bias"}})
    if (result.ends_with(old_end))
      result.replace(result.size() - std::string_view(old_end).size(), std::string::npos, end);
  return result;
}

template <class Value>
void add_canonical(std::map<std::string, Value, std::less<>>& tensors, const Model& model,
                   std::map<std::string, Value, std::less<>>& result) {
  for (auto& [name, value] : tensors) {
    std::string known = canonical(name, model.config.family);
    if (model.has(known) || !result.emplace(known, std::move(value)).second)
      fail(ErrorKind::bad_file, "{}: tensor '{}' appears twice, once under another name",
           (model.folder / model.weights_file).string(), known);
  }
}

// A table that is tied to the head may stand in the file under the head's name alone.
void share_head(Model& model) {
  if (!is_decoder(model.config.family) || !model.config.tied_head) return;
  const std::string_view table = model.config.family == Family::gpt2 ? "wte.weight" : "embed_tokens.weight";
  const auto head = model.weights.find("lm_head.weight");
  if (head != model.weights.end() && !model.has(table)) model.weights.emplace(table, TensorView(head->second));
}

void read_weights(Model& model) {
  WeightFiles files = read_weight_files(model.folder);
  model.weights_file = files.file;
  add_canonical(files.tensors.tensors, model, model.weights);
  add_canonical(files.tensors.others, model, model.others);
  model.mapping = std::move(files.tensors.mapping);
  share_head(model);
}

}  // namespace

const TensorView& Model::weight(std::string_view name, const Shape& shape) const {
  const std::string file = (folder / weights_file).string();
  if (const auto other = others.find(name); other != others.end())
    fail(ErrorKind::bad_file, "{}: tensor '{}' is {}; accepted for a weight: f32, f16, bf16", file, name,
         other->second);
  const auto found = weights.find(name);
  if (found == weights.end())
    fail(ErrorKind::bad_file, "{}: tensor '{}' of shape {} is missing", file, name, to_string(shape));
  const TensorView& view = found->second;
  if (view.shape != shape)
    fail(ErrorKind::bad_file, "{}: tensor '{}' has shape {}; config.json asks for {}", file, name,
         to_string(view.shape), to_string(shape));
  if (!is_weight_type(view.dtype))
    fail(ErrorKind::bad_file, "{}: tensor '{}' is {}; accepted for a weight: f32, f16, bf16", file, name,
         name_of(view.dtype));
  return view;
}

namespace {

// As `owner/name` is: two words of letters, digits, dots, dashes and underscores, and no folder begins so.
bool looks_like_a_hub_name(const fs::path& folder) {
  const std::string text = folder.string();
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || text[0] == '.' || is_there(text.substr(0, slash))) return false;
  const std::string_view name = std::string_view(text).substr(slash + 1);
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && text.substr(0, slash).find_first_not_of(kLetters) == std::string::npos &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  constexpr std::string_view kAModel =
      "a model is a folder with config.json, model.safetensors, and tokenizer.json or vocab.txt";
  if (folder.empty()) fail(ErrorKind::bad_file, "the folder of the model has no name, it is ''; {}", kAModel);
  fail(ErrorKind::bad_file, "{}: {}; {}{}", folder.string(), is_there(folder) ? "not a folder" : "no such folder",
       kAModel,
       looks_like_a_hub_name(folder)
           ? "; names of the Hugging Face Hub are not taken: download it, into a folder (docs/sessions.md, Models)"
           : "");
}

}  // namespace

Model read_model(const fs::path& folder) {
  if (!is_folder(folder)) refuse_folder(folder);
  Model model;
  model.folder = folder;
  model.config = read_config(folder);
  model.pooling = read_pooling(folder, model.config);
  read_weights(model);
  if (model.config.family == Family::gemma) make_norms_whole(model);
  if (model.config.family == Family::t5) make_sums_small(model);
  add_biases_by_distance(model);
  return model;
}

}  // namespace stof
