// SPDX-License-Identifier: Apache-2.0
#include "src/model/dense_layer.h"

#include <array>
#include <utility>

#include "src/base/error.h"
#include "src/model/file_names.h"
#include "src/model/json.h"
#include "src/model/model.h"
#include "src/model/weight_files.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

// Classes of PyTorch, of which one without arguments is made.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kActivations{
    {{"torch.nn.modules.linear.Identity", ""},
     {"torch.nn.modules.activation.GELU", "gelu"},
     {"torch.nn.modules.activation.ReLU", "relu"},
     {"torch.nn.modules.activation.SiLU", "silu"},
     {"torch.nn.modules.activation.Tanh", "tanh"}}};

std::string activation_of(const JsonObject& object) {
  constexpr std::string_view kKey = "activation_function", kDefault = kActivations.back().first;
  const std::string said = object.string(kKey, kDefault);
  for (const auto& [name, activation] : kActivations)
    if (said == name) return std::string(activation);
  refuse(object, kKey, "Identity, GELU, ReLU, SiLU, Tanh of torch.nn.modules");
}

void check_place(const JsonObject& object) {
  constexpr std::string_view kVector = "sentence_embedding";
  for (const std::string_view key : {"module_input_name", "module_output_name"})
    if (is_said(object, key) && object.string(key) != kVector) refuse(object, key, kVector);
  if (object.boolean("use_residual", false)) refuse(object, "use_residual", "false");
}

}  // namespace

DenseLayer read_dense_layer(const fs::path& folder, std::int64_t inputs) {
  const fs::path file = folder / file_names::kConfig;
  const nlohmann::json tree = read_json(file);
  const JsonObject object(tree, file.string());
  check_place(object);
  if (object.integer("in_features", 1, INT32_MAX) != inputs)
    object.refuse("in_features", fmt::format("the columns of what comes in, {}", inputs));
  const std::int64_t outputs = object.integer("out_features", 1, INT32_MAX);
  Model weights;
  weights.folder = folder;
  WeightFiles files = read_weight_files(folder);
  weights.weights_file = files.file;
  weights.weights = std::move(files.tensors.tensors);
  weights.others = std::move(files.tensors.others);
  DenseLayer layer{.weight = weights.weight("linear.weight", {outputs, inputs}),
                   .activation = activation_of(object),
                   .mapping = std::move(files.tensors.mapping)};
  if (object.boolean("bias", true)) layer.bias = weights.weight("linear.bias", {outputs});
  return layer;
}

}  // namespace stof
