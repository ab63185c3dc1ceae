// SPDX-License-Identifier: Apache-2.0
// One product out[rows, columns] = x[rows, inner] w[columns, inner]^T of cuBLASLt, with the algorithm that its
// heuristic chose for the shape, asked once as long as that is known.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "src/backend/cuda/driver/blas.h"
#include "src/backend/cuda/driver/gpu.h"
#include "stof/tensor.h"

namespace stof::cuda {

struct ProductOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;      // [columns] of the product's dtype, where the epilogue takes one
  const void* residual = nullptr;  // [rows, columns], added before the epilogue, or null
  void* out = nullptr;
};

// Everything that the choice of an algorithm depends on.
struct ProductKey {
  std::int64_t rows = 0, columns = 0, inner = 0;
  DType dtype = DType::f32;
  BlasEpilogue epilogue = BlasEpilogue::none;
  bool residual = false;
  // Bytes, powers of two up to 256.
  std::uint32_t x_alignment = 256, weight_alignment = 256, residual_alignment = 256, out_alignment = 256;
  std::size_t workspace_bytes = 0;
  friend auto operator<=>(const ProductKey&, const ProductKey&) = default;
};

// What cuBLASLt has said of keys; nothing: it has no algorithm. Prompts that are not rounded up bring any number of
// rows, so that of very many keys half go, those that were not wanted for longest.
class ProductChoices {
 public:
  static constexpr std::size_t kMost = 4096;
  // Null: it was not asked, as far as is known.
  const std::optional<BlasChoice>* find(const ProductKey& key);
  const std::optional<BlasChoice>& keep(const ProductKey& key, const std::optional<BlasChoice>& choice);
  std::size_t size() const { return known_.size(); }

 private:
  struct Known {
    std::optional<BlasChoice> choice;
    std::int64_t used = 0;  // when, last
  };
  std::map<ProductKey, Known> known_;
  std::int64_t now_ = 0;
};

// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* address);

struct ProductSpace {  // memory and order of one call
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  StreamHandle stream = nullptr;
};

// The library as one GPU uses it. Thread-safe.
class BlasDevice {
 public:
  // Made at the first call, kept to the end of the process.
  static BlasDevice& of(const Gpu& gpu);

  // False when cuBLASLt has no algorithm for the key: nothing was done. The key says what the operands and the space
  // are.
  bool multiply(const ProductKey& key, const ProductOperands& operands, const ProductSpace& space);
  // Chooses an algorithm for some product of this dtype: the first choice for each takes 0.07 to 0.13 s
  // (bench/results/h200-first-calls.txt).
  void wake(DType dtype);
  // Shapes that algorithms were chosen for, and are known.
  std::size_t choices() const;

 private:
  explicit BlasDevice(const Gpu& gpu);
  struct Description;
  std::optional<BlasChoice> choice(const ProductKey& key, const Description& description);

  const Gpu& gpu_;
  BlasHandle handle_ = nullptr;
  mutable std::mutex mutex_;
  ProductChoices choices_;
};

}  // namespace stof::cuda
