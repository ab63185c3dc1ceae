// SPDX-License-Identifier: Apache-2.0
#include "src/model/model.h"

#include "src/base/error.h"
#include "src/model/safetensors.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

// Names as BertModel has them: without the prefix of the task models, and with the weight and bias that layer norms
// of checkpoints converted from TensorFlow call gamma and beta.
std::string canonical(std::string_view name) {
  constexpr std::string_view kPrefix = "bert.";
  std::string result(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
  for (const auto& [old_end, end] :
       {std::pair{".LayerNorm.gamma", ".LayerNorm.weight"}, std::pair{".LayerNorm.beta", ".LayerNorm.bias"}})
    if (result.ends_with(old_end))
      result.replace(result.size() - std::string_view(old_end).size(), std::string::npos, end);
  return result;
}

void read_weights(const fs::path& file, Model& model) {
  TensorFile tensors = read_safetensors(file);
  for (auto& [name, view] : tensors.tensors)
    if (!model.weights.emplace(canonical(name), std::move(view)).second)
      fail(ErrorKind::bad_file, "{}: tensor '{}' appears twice, once under another name", file.string(),
           canonical(name));
  model.mapping = std::move(tensors.mapping);
}

}  // namespace

const TensorView& Model::weight(std::string_view name, const Shape& shape) const {
  const std::string file = (folder / "model.safetensors").string();
  const auto found = weights.find(name);
  if (found == weights.end())
    fail(ErrorKind::bad_file, "{}: tensor '{}' of shape {} is missing", file, name, to_string(shape));
  const TensorView& view = found->second;
  if (view.shape != shape)
    fail(ErrorKind::bad_file, "{}: tensor '{}' has shape {}; config.json asks for {}", file, name,
         to_string(view.shape), to_string(shape));
  if (view.dtype != DType::f32 && view.dtype != DType::f16 && view.dtype != DType::bf16)
    fail(ErrorKind::bad_file, "{}: tensor '{}' is {}; accepted for a weight: f32, f16, bf16", file, name,
         name_of(view.dtype));
  return view;
}

Model read_model(const fs::path& folder) {
  if (!fs::is_directory(folder))
    fail(ErrorKind::bad_file,
         "{}: {}; a model is a folder with config.json, model.safetensors, and tokenizer.json or "
         "vocab.txt",
         folder.string(), fs::exists(folder) ? "not a folder" : "no such folder");
  Model model{.folder = folder, .config = read_config(folder), .pooling = {}, .weights = {}, .mapping = {}};
  model.pooling = read_pooling(folder, model.config);
  const fs::path file = folder / "model.safetensors";
  if (!fs::exists(file))
    fail(ErrorKind::bad_file,
         "{}: no model.safetensors; weights in other files (pytorch_model.bin, sharded safetensors) "
         "are not read",
         folder.string());
  read_weights(file, model);
  return model;
}

}  // namespace stof
