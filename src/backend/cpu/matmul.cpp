// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/matmul.h"

#include "src/base/error.h"

namespace stof::cpu {
namespace {

// oneDNN multiplies bf16 by matrix registers, and refuses it below AVX-512.
bool panels_take(DType dtype, const DeviceCaps& caps) { return dtype == DType::f32 || !caps.bf16_matrix; }

// oneDNN has no gate.
bool takes(const LinearSpec& spec) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::bf16) return false;
  if (spec.x_norm || spec.residual_norm || spec.own_norm || spec.moments || spec.turned || spec.few_rows || spec.paired)
    return false;
  return !spec.gate || (panels_take(spec.dtype, open_device("cpu").caps) && !spec.residual);
}

PackedLinear pack(const LinearSpec& spec) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::bf16)
    fail(ErrorKind::unsupported, "no matmul in {} on the CPU; accepted: f32, bf16", name_of(spec.dtype));
  if (spec.x_norm || spec.residual_norm || spec.own_norm || spec.moments)
    fail(ErrorKind::unsupported, "no matmul with a layer norm of its operands on the CPU; accepted: none");
  if (spec.few_rows) fail(ErrorKind::unsupported, "no matmul for few rows alone on the CPU; accepted: for any number");
  if (spec.paired)
    fail(ErrorKind::unsupported, "no matmul with paired halves on the CPU; accepted: one after the other");
  if (spec.turned) fail(ErrorKind::unsupported, "no matmul that turns heads on the CPU; accepted: none turned");
  if (spec.gate && !takes(spec))
    fail(ErrorKind::unsupported, "no matmul with a gate{} in {} on this CPU; accepted: {}",
         spec.residual ? " and a residual" : "", name_of(spec.dtype),
         spec.residual ? "no residual" : "f32, bf16 where it has no AMX");
  STOF_CHECK(!spec.weight.empty());
  const DeviceCaps caps = open_device("cpu").caps;
  if (!panels_take(spec.dtype, caps)) return pack_onednn(spec);
  return pack_panels(spec, multiplies_pairs(caps) ? Bf16Words::pairs : Bf16Words::widened);
}

PackedMatrix pack_matrix(const LinearSpec& spec) { return static_cast<const Linear*>(pack(spec).get())->matrix(); }

void run(const PackedLinear& linear, const LinearCall& call) { static_cast<const Linear*>(linear.get())->run(call); }

}  // namespace

const MatmulOperations matmul_operations{.pack = pack, .takes = takes, .pack_matrix = pack_matrix, .run = run};

}  // namespace stof::cpu
