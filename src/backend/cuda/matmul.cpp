// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul.h"

#include <algorithm>

#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/cuda/matmul/epilogue.h"
#include "src/backend/cuda/matmul/product.h"
#include "src/backend/cuda/matmul/settings.h"
#include "src/backend/cuda/rows.h"
#include "src/base/error.h"
#include "src/tensor/convert.h"

namespace stof::cuda {
namespace {

// What NVIDIA recommends for Hopper; algorithms that split the inner dimension need some.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// Parts one after another, on the GPU.
DeviceMemory stacked(const Gpu& gpu, std::span<const TensorView> parts, DType dtype) {
  std::size_t bytes = 0;
  for (const TensorView& part : parts) bytes += static_cast<std::size_t>(element_count(part.shape)) * size_of(dtype);
  DeviceMemory memory(gpu, bytes);
  DevicePointer next = memory.address();
  for (const TensorView& part : parts) {
    const Tensor values = converted(part, dtype);
    copy_in(gpu, next, {values.as<std::byte>(), values.bytes()});
    next += values.bytes();
  }
  return memory;
}

class Linear {
 public:
  explicit Linear(const LinearSpec& spec)
      : gpu_(gpu_of(*spec.device)),
        blas_(BlasDevice::of(gpu_)),
        dtype_(spec.dtype),
        activation_(spec.activation),
        residual_(spec.residual),
        inner_(spec.weight.front().dim(1)),
        weight_(stacked(gpu_, spec.weight, spec.dtype)),
        bias_(stacked(gpu_, spec.bias, spec.dtype)),
        exact_bias_(stacked(gpu_, spec.bias, DType::f32)) {
    for (const TensorView& part : spec.weight) columns_ += part.dim(0);
  }

  void run(const LinearCall& call) const {
    if (call.rows == 0 || columns_ == 0) return;
    const bool bias = bias_.bytes() > 0;
    for (const Epilogue& epilogue : {epilogue_of(activation_, bias, dtype_), plain_epilogue(activation_, bias)}) {
      if (!multiply(call, epilogue.inside)) continue;
      if (epilogue.anything_after())
        row_operations.add({.rows = call.rows, .columns = columns_, .dtype = dtype_, .queue = call.queue}, call.out,
                           epilogue.bias_after ? exact_bias_.as<void>() : nullptr, epilogue.bias_after,
                           epilogue.activation_after, call.out);
      return;
    }
    fail(ErrorKind::unsupported, "cuBLASLt refused a matmul of [{}, {}] and [{}, {}] in {}", call.rows, inner_, inner_,
         columns_, name_of(dtype_));
  }

 private:
  bool multiply(const LinearCall& call, BlasEpilogue epilogue) const {
    const ProductKey key{.rows = call.rows,
                         .columns = columns_,
                         .inner = inner_,
                         .dtype = dtype_,
                         .epilogue = epilogue,
                         .residual = residual_,
                         .x_alignment = alignment_of(call.x),
                         .weight_alignment = alignment_of(weight_.as<void>()),
                         .residual_alignment = residual_ ? alignment_of(call.residual) : 256,
                         .out_alignment = alignment_of(call.out),
                         .workspace_bytes = call.queue.workspace == nullptr ? 0 : call.queue.workspace_bytes};
    return blas_.multiply(key,
                          {.x = call.x,
                           .weight = weight_.as<void>(),
                           .bias = bias_.as<void>(),
                           .residual = residual_ ? call.residual : nullptr,
                           .out = call.out},
                          {.workspace = call.queue.workspace,
                           .workspace_bytes = key.workspace_bytes,
                           .stream = static_cast<StreamHandle>(call.queue.stream)});
  }

  const Gpu& gpu_;
  BlasDevice& blas_;
  DType dtype_;
  Activation activation_;
  bool residual_;
  std::int64_t inner_, columns_ = 0;
  DeviceMemory weight_, bias_, exact_bias_;
};

PackedLinear pack(const LinearSpec& spec) {
  STOF_CHECK(!spec.weight.empty() && spec.device != nullptr);
  if (spec.dtype != DType::f32 && spec.dtype != DType::f16 && spec.dtype != DType::bf16)
    fail(ErrorKind::unsupported, "no matmul in {} on CUDA; accepted: f32, f16, bf16", name_of(spec.dtype));
  if (spec.residual_norm) STOF_CHECK(spec.residual);
  if (const auto why_not = refuses(problem_of(spec, 1), spec.device->caps, {}))
    fail(ErrorKind::unsupported, "no matmul on CUDA: {}", *why_not);
  return std::make_shared<const Linear>(spec);
}

std::vector<MatmulChoice> settings(const LinearSpec& spec, std::int64_t rows) {
  return settings_of(problem_of(spec, rows), spec.device->caps);
}

std::optional<std::string> refuses_setting(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  return refuses(problem_of(spec, rows), spec.device->caps, setting);
}

void prepare(const PackedLinear&, const MatmulSetting&) {}

void run(const PackedLinear& linear, const LinearCall& call) { static_cast<const Linear*>(linear.get())->run(call); }

}  // namespace

const MatmulOperations matmul_operations{.pack = pack,
                                         .run = run,
                                         .workspace_bytes = kWorkspaceBytes,
                                         .settings = settings,
                                         .refuses = refuses_setting,
                                         .prepare = prepare};

}  // namespace stof::cuda
