// SPDX-License-Identifier: Apache-2.0
// A fused node as work: its text says all that its time depends on besides the number of rows and the dtype, so nodes
// with one text are measured once and run by one setting.
#pragma once
#include <string>

#include "src/graph/graph.h"
#include "stof/device.h"

namespace stof {

// "linear 768>3072 gelu x_norm", "add_layer_norm 768".
std::string work_text(const Graph& graph, const Node& node);

// Of a Linear or MatMul. Borrows what the node borrows.
LinearSpec linear_spec(const Node& node, DType dtype, const Device* device);

}  // namespace stof
