// SPDX-License-Identifier: Apache-2.0
// Many emitted predicates in one translation unit, for the host's compiler or for NVRTC.
#pragma once
#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "src/codegen/emit_mask.h"

namespace stof {

// Predicate i as function allows_i.
inline std::string unit_of(std::span<const EmittedMask> masks, std::string_view function) {
  constexpr std::string_view kInclude = "#include \"kernels/shared/mask_terms.h\"\n";
  std::string unit(kInclude);
  for (std::size_t i = 0; i < masks.size(); ++i)
    unit += fmt::format("namespace mask_{} {{{}}}\n{}\n", i, masks[i].source.substr(kInclude.size()),
                        fmt::format(fmt::runtime(function), i));
  return unit;
}

inline std::string host_unit(std::span<const EmittedMask> masks) {
  return unit_of(masks,
                 "extern \"C\" bool allows_{0}(const int* a, int b, int h, int q, int k) {{\n"
                 "  return mask_{0}::MaskPredicate::allows(a, b, h, q, k);\n}}");
}

inline std::string device_unit(std::span<const EmittedMask> masks) {
  return unit_of(masks,
                 "extern \"C\" __global__ void allows_{0}(const int* a, bool* out) {{\n"
                 "  out[threadIdx.x] = mask_{0}::MaskPredicate::allows(a, blockIdx.y, blockIdx.z, blockIdx.x, "
                 "threadIdx.x);\n}}");
}

}  // namespace stof
