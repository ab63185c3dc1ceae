// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {

Graph build_dense(const std::vector<DenseLayer>& layers) {
  STOF_CHECK(!layers.empty());
  const Model of_no_names;
  GraphBuilder graph(of_no_names);
  ValueId x = graph.node("pooled", op::Input{.columns = layers.front().inputs()}, {}, {});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = fmt::format("dense.{}", i);
    const DenseLayer& layer = layers[i];
    x = graph.node(name + ".product", op::MatMul{}, {x}, {{name + ".weight", layer.weight}});
    if (layer.bias) x = graph.node(name, op::AddBias{}, {x}, {{name + ".bias", *layer.bias}});
    if (!layer.activation.empty())
      x = graph.node(name + ".activation", op::Activate{activation_of(layer.activation)}, {x}, {});
  }
  return graph.finish(x);
}

}  // namespace stof
