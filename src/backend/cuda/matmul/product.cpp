// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/product.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "src/backend/cuda/matmul/epilogue.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

constexpr float kOne = 1.f, kZero = 0.f;

BlasType type_of(DType dtype) {
  STOF_CHECK(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
  return dtype == DType::f32 ? BlasType::f32 : dtype == DType::f16 ? BlasType::f16 : BlasType::bf16;
}

// Descriptors of cuBLASLt, owned.
template <class Handle, const BlasEntry<Handle> Blas::*kDestroy>
struct Owned {
  Handle handle = nullptr;
  Owned() = default;
  ~Owned() {
    if (handle != nullptr) (blas().*kDestroy).attempt(handle);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};
using Product = Owned<BlasProductHandle, &Blas::destroy_product>;
using Matrix = Owned<BlasMatrixHandle, &Blas::destroy_matrix>;
using Preference = Owned<BlasPreferenceHandle, &Blas::destroy_preference>;

}  // namespace

// cuBLASLt counts columns first: what is out[rows, columns] in memory is to it the transposed matrix, and so it
// computes w x^T, with w, stored [columns, inner], transposed once more.
struct BlasDevice::Description {
  Description(const ProductKey& key, const void* bias) {
    const Blas& api = blas();
    const BlasType type = type_of(key.dtype);
    const auto rows = static_cast<std::uint64_t>(key.rows), columns = static_cast<std::uint64_t>(key.columns),
               inner = static_cast<std::uint64_t>(key.inner);
    api.create_product(&product.handle, kBlasComputeF32, BlasType::f32);
    set(BlasProductAttribute::transpose_a, kBlasTransposed);
    set(BlasProductAttribute::epilogue, key.epilogue);
    if (takes_bias(key.epilogue)) set(BlasProductAttribute::bias_pointer, bias);
    api.create_matrix(&weight.handle, type, inner, columns, key.inner);
    api.create_matrix(&x.handle, type, inner, rows, key.inner);
    api.create_matrix(&out.handle, type, columns, rows, key.columns);
  }

  template <class Value>
  void set(BlasProductAttribute attribute, const Value& value) const {
    blas().set_product(product.handle, attribute, &value, sizeof value);
  }

  Product product;
  Matrix weight, x, out;
};

const std::optional<BlasChoice>* ProductChoices::find(const ProductKey& key) {
  const auto found = known_.find(key);
  if (found == known_.end()) return nullptr;
  found->second.used = ++now_;
  return &found->second.choice;
}

const std::optional<BlasChoice>& ProductChoices::keep(const ProductKey& key, const std::optional<BlasChoice>& choice) {
  if (known_.size() >= kMost) {
    std::vector<std::int64_t> times;
    for (const auto& [of, known] : known_) times.push_back(known.used);
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), middle, times.end());
    std::erase_if(known_, [before = *middle](const auto& entry) { return entry.second.used < before; });
  }
  return known_.insert_or_assign(key, Known{choice, ++now_}).first->second.choice;
}

std::uint32_t alignment_of(const void* address) {
  const auto bits = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(address)) | 256U;
  return bits & (~bits + 1);
}

BlasDevice::BlasDevice(const Gpu& gpu) : gpu_(gpu) {
  const CurrentGpu current(gpu);
  blas().create(&handle_);
}

BlasDevice& BlasDevice::of(const Gpu& gpu) {
  static std::mutex mutex;
  // Never destroyed: the driver may be gone by then.
  static auto* const devices = new std::map<int, std::unique_ptr<BlasDevice>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<BlasDevice>& place = (*devices)[gpu.ordinal];
  if (!place) place.reset(new BlasDevice(gpu));
  return *place;
}

std::optional<BlasChoice> BlasDevice::choice(const ProductKey& key, const Description& description) {
  const std::lock_guard lock(mutex_);
  if (const auto* const known = choices_.find(key)) return *known;
  const Blas& api = blas();
  Preference preference;
  api.create_preference(&preference.handle);
  const auto set = [&](BlasPreference what, const auto& value) {
    api.set_preference(preference.handle, what, &value, sizeof value);
  };
  set(BlasPreference::most_workspace_bytes, std::uint64_t{key.workspace_bytes});
  set(BlasPreference::alignment_a, key.weight_alignment);
  set(BlasPreference::alignment_b, key.x_alignment);
  set(BlasPreference::alignment_c, key.residual ? key.residual_alignment : key.out_alignment);
  set(BlasPreference::alignment_d, key.out_alignment);
  BlasChoice best{};
  int found = 0;
  const BlasStatus status =
      api.choose.attempt(handle_, description.product.handle, description.weight.handle, description.x.handle,
                         description.out.handle, description.out.handle, preference.handle, 1, &best, &found);
  if (status != kBlasSuccess && status != kBlasNotSupported) fail_blas_call("cublasLtMatmulAlgoGetHeuristic", status);
  const bool usable = status == kBlasSuccess && found > 0 && best.status == kBlasSuccess;
  return choices_.keep(key, usable ? std::optional(best) : std::nullopt);
}

bool BlasDevice::multiply(const ProductKey& key, const ProductOperands& operands, const ProductSpace& space) {
  const CurrentGpu current(gpu_);
  const Description description(key, operands.bias);
  const std::optional<BlasChoice> chosen = choice(key, description);
  if (!chosen) return false;
  blas().multiply(handle_, description.product.handle, &kOne, operands.weight, description.weight.handle, operands.x,
                  description.x.handle, key.residual ? &kOne : &kZero, key.residual ? operands.residual : operands.out,
                  description.out.handle, operands.out, description.out.handle, &chosen->algorithm, space.workspace,
                  space.workspace_bytes, space.stream);
  return true;
}

void BlasDevice::wake(DType dtype) {
  const CurrentGpu current(gpu_);
  const OutsideCapture outside;
  const ProductKey key{.rows = 64, .columns = 64, .inner = 64, .dtype = dtype};
  choice(key, Description(key, nullptr));
}

std::size_t BlasDevice::choices() const {
  const std::lock_guard lock(mutex_);
  return choices_.size();
}

}  // namespace stof::cuda
