// SPDX-License-Identifier: Apache-2.0
// What is asked of all weights of a graph together.
#pragma once
#include <span>
#include <string>

#include "src/graph/graph.h"
#include "stof/device.h"

namespace stof {

// Of the matrices and vectors, each once, as a device holds them.
std::int64_t weight_bytes(const Graph& graph, DType dtype);

// Throws device where they cannot be held whatever is done: before gigabytes are read, and a host ends the process that
// asks for them. A host holds the matrices, and reads tables where they are mapped.
void check_weights_fit(const Graph& graph, DType dtype, const Device& device);

// Of names, shapes and contents, in the order of the graph; 32 digits. Reads every weight.
std::string weights_fingerprint(const Graph& graph);

// Empty where all values are finite, else what is not and the first weight it may come from: "nan, as x.weight holds
// nan", "inf" where all weights are finite.
std::string why_not_finite(std::span<const float> values, const Graph& graph);

}  // namespace stof
