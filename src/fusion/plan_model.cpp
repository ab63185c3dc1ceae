// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/plan_model.h"

#include <algorithm>
#include <array>

#include "src/backend/contract.h"
#include "src/fusion/fuse.h"
#include "src/graph/print.h"
#include "stof/device.h"

namespace stof {

PlanKey plan_key(const Graph& simplified, const std::optional<Mask>& mask, const CostContext& call) {
  const SoftwareVersions below =
      call.device->backend->versions == nullptr ? SoftwareVersions{} : call.device->backend->versions();
  return {.graph = fingerprint_of(to_text(simplified)).hex(),
          .mask = mask.value_or(all()).fingerprint(),
          .rows = call.rows,
          .texts = call.texts,
          .longest = call.longest,
          .dtype = std::string(name_of(call.dtype)),
          .device = call.device->caps.name,
          .cores = call.device->caps.cores,
          .driver = below.driver,
          .cuda = below.cuda,
          .blas = below.blas,
          .library = STOF_VERSION};
}

std::vector<Scheme> known_schemes(const Blocks& blocks) {
  using Names = std::vector<std::string_view>;
  const Names always{"embedding",         "embedding_norm",  "linear",
                     "linear_activation", "linear_residual", "product_residual"};
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
