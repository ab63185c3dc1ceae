// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/rows.h"

#include "src/base/error.h"

namespace stof::cuda {
namespace {

[[noreturn]] void refuse(std::string_view operation) {
  fail(ErrorKind::unsupported, "{} does not run on CUDA; models run on the device 'cpu'", operation);
}

void lookup(const RowShape&, std::span<const LookupTable>, const NormWeights*, void*) { refuse("lookup"); }
void layer_norm(const RowShape&, const void*, const void*, const NormWeights&, void*) { refuse("layer_norm"); }
void add(const RowShape&, const void*, const void*, bool, Activation, void*) { refuse("add"); }

}  // namespace

const RowOperations row_operations{.lookup = lookup, .layer_norm = layer_norm, .add = add};

}  // namespace stof::cuda
