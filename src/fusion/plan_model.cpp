// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/fuse.h"
#include "src/graph/print.h"
#include "stof/device.h"

namespace stof {

PlanKey on_device(PlanKey question, const Device& device) {
  const Backend& backend = *device.backend;
  const SoftwareVersions below = backend.versions == nullptr ? SoftwareVersions{} : backend.versions();
  question.device =
      backend.processor == nullptr ? device.caps.name : fmt::format("{} ({})", backend.processor(), device.caps.name);
  question.cores = device.caps.cores;
  question.driver = below.driver;
  question.cuda = below.cuda;
  question.blas = below.blas;
  question.library = STOF_VERSION;
  return question;
}

PlanKey plan_key(const Graph& simplified, const std::optional<Mask>& mask, const CostContext& call, bool keeps_keys) {
  return on_device({.graph = fingerprint_of(to_text(simplified) + (keeps_keys ? "keys are kept\n" : "")).hex(),
                    .mask = mask.value_or(all()).fingerprint(),
                    .rows = call.rows,
                    .texts = call.texts,
                    .longest = call.longest,
                    .dtype = std::string(name_of(call.dtype))},
                   *call.device);
}

std::string wrong_setting(const FusionPlan& plan, const Device& device) {
  for (const PlannedWork& work : plan.works) {
    if (work.setting.empty()) continue;
    if (device.backend->matmul.settings == nullptr)
      return fmt::format("'{}': setting '{}'; accepted on {}: none", work.work, work.setting, device.backend->name);
    try {
      matmul_setting_of(work.setting);
    } catch (const Error& error) {
      return fmt::format("'{}': {}", work.work, error.what());
    }
  }
  return {};
}

std::vector<Scheme> known_schemes(const Blocks& blocks) {
  using Names = std::vector<std::string_view>;
  const Names always{"embedding",          "embedding_norm",  "linear",           "linear_activation",
                     "product_activation", "linear_residual", "product_residual", "norm_add"};
  const std::array<Names, 3> sets{Names{}, Names{"linear_residual_norm", "product_residual_norm"},
                                  Names{"bias_activation", "add_norm"}};
  std::vector<Scheme> schemes{default_scheme(blocks)};
  // A gate or a turn inside a matmul needs a kernel that may have to be compiled, where nothing compiles.
  const Names gates{"product_gate", "linear_gate"};
  Names gates_and_rope = gates;
  gates_and_rope.insert(gates_and_rope.end(), {"product_rope", "linear_rope"});
  for (const Names& further : {gates_and_rope, gates, Names{}})
    for (Names names : sets) {
      names.insert(names.end(), always.begin(), always.end());
      names.insert(names.end(), further.begin(), further.end());
      Scheme scheme = scheme_of_templates(blocks, names);
      if (std::find(schemes.begin(), schemes.end(), scheme) == schemes.end()) schemes.push_back(std::move(scheme));
    }
  return schemes;
}

SearchResult analytical_search(const Blocks& blocks, const CostContext& call) {
  Predictions predictions(call);
  SearchOptions options{.samples = 1, .most_rounds = 0};
  std::vector<Scheme> starts = known_schemes(blocks);
  if (call.device->backend->matmul.settings == nullptr) {
    options.change_scheme = false;
    starts.resize(1);
  }
  return search(blocks, starts, predictions, options);
}

}  // namespace stof
