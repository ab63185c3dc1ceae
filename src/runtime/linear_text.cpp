// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/linear_text.h"

#include <fmt/format.h>

namespace stof {

std::string text_of_matrix(const LinearSpec& spec) {
  std::string text = fmt::format("matrix {} {}", name_of(spec.dtype), spec.gate || spec.paired);
  if (spec.turned) text += fmt::format(" turned {} {}", spec.turned->heads, spec.turned->head_dim);
  for (const TensorView& part : spec.weight) text += fmt::format(" {}", part.data);
  if (spec.x_norm) text += fmt::format(" x {} {}", spec.x_norm->scale.data, spec.x_norm->shift.data);
  return text;
}

std::string text_of_epilogue(const LinearSpec& spec) {
  std::string text = fmt::format(" then {} {} {} {}", name_of(spec.activation), spec.gate, spec.residual, spec.moments);
  for (const TensorView& part : spec.bias) text += fmt::format(" {}", part.data);
  if (spec.x_norm) text += fmt::format(" x {}", spec.x_norm->epsilon);
  if (spec.few_rows) text += " few rows";
  if (const auto& norm = spec.own_norm)
    text += fmt::format(" own {} {} {}", norm->scale.data, norm->shift ? norm->shift->data : nullptr, norm->epsilon);
  if (const auto& norm = spec.residual_norm)
    text += fmt::format(" r {} {} {}", norm->scale.data, norm->shift.data, norm->epsilon);
  return text;
}

}  // namespace stof
