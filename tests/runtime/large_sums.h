// SPDX-License-Identifier: Apache-2.0
// The small T5 with sums between layers that f16 would not hold as the checkpoint has them.
#pragma once
#include "src/base/error.h"
#include "src/model/model.h"
#include "tests/runtime/families.h"

namespace stof {

// 65,536 times those of the checkpoint, of which norms leave nothing: hidden states are the same ones.
inline Model t5_with_large_sums() {
  Model model = read_model(family_folder("t5"));
  for (auto& [name, weight] : model.weights) {
    const bool is_added = name == "shared.weight" || name.ends_with(".SelfAttention.o.weight") ||
                          name.ends_with(".DenseReluDense.wo.weight");
    if (!is_added || name.starts_with("decoder.")) continue;
    STOF_CHECK(weight.dtype == DType::f32);  // made when the model was read (src/model/t5_sums.h)
    float* const values = static_cast<float*>(weight.data);
    for (std::int64_t i = 0; i < element_count(weight.shape); ++i) values[i] *= 65536;
  }
  return model;
}

}  // namespace stof
