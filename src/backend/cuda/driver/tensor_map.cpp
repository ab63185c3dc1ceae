// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/tensor_map.h"

#include "src/backend/cuda/driver/api.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;                      // of the address and of every stride
constexpr std::int64_t kMostStride = std::int64_t{1} << 40;  // bytes, exclusive
constexpr std::int64_t kMostSize = std::int64_t{1} << 32;
constexpr int kMostBox = 256;

int bytes_of(TensorElement element) {
  switch (element) {
    case TensorElement::u8: return 1;
    case TensorElement::f16:
    case TensorElement::bf16: return 2;
    case TensorElement::f32: return 4;
  }
  return 0;
}

int swizzle_bytes(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::none ? 0 : 16 << static_cast<int>(swizzle);
}

void check_box(const TensorBox& tensor) {
  for (std::size_t i = 0; i < TensorBox::kRank; ++i) STOF_CHECK(tensor.box[i] > 0 && tensor.box[i] <= kMostBox);
  const int inner = tensor.box[0] * bytes_of(tensor.element);
  STOF_CHECK(inner % kAlignment == 0);
  STOF_CHECK(tensor.swizzle == TensorSwizzle::none || inner <= swizzle_bytes(tensor.swizzle));
}

// What about a tensor is wrong, as far as there is no text to be made of it.
struct Misfit {
  enum class What : std::uint8_t { address, size, stride } what;
  std::size_t dimension = 0;
  std::int64_t got = 0;
};

std::optional<Misfit> misfit_of(const TensorBox& tensor) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.base) % kAlignment);
  if (past != 0) return Misfit{.what = Misfit::What::address, .got = past};
  for (std::size_t i = 0; i < TensorBox::kRank; ++i)
    if (tensor.sizes[i] < 1 || tensor.sizes[i] > kMostSize) return Misfit{Misfit::What::size, i, tensor.sizes[i]};
  for (std::size_t i = 0; i + 1 < TensorBox::kRank; ++i) {
    if (tensor.sizes[i + 1] == 1) continue;
    const std::int64_t bytes = tensor.strides[i] * bytes_of(tensor.element);
    if (bytes % kAlignment != 0 || bytes < 0 || bytes >= kMostStride) return Misfit{Misfit::What::stride, i, bytes};
  }
  return std::nullopt;
}

}  // namespace

bool fits(const TensorBox& tensor) { return !misfit_of(tensor); }

std::optional<std::string> refuses(const TensorBox& tensor) {
  const std::optional<Misfit> misfit = misfit_of(tensor);
  if (!misfit) return std::nullopt;
  switch (misfit->what) {
    case Misfit::What::address:
      return fmt::format("{} is {} bytes past a multiple of {}, and the copy engine takes only multiples", tensor.name,
                         misfit->got, kAlignment);
    case Misfit::What::size:
      return fmt::format("{} has {} elements in dimension {}; the copy engine takes 1 to {}", tensor.name, misfit->got,
                         misfit->dimension, kMostSize);
    case Misfit::What::stride:
      return fmt::format("{} has a stride of {} bytes; the copy engine takes multiples of {} from 0 to {}", tensor.name,
                         misfit->got, kAlignment, kMostStride - kAlignment);
  }
  return std::nullopt;
}

TensorMapBytes encode(const TensorBox& tensor) {
  if (const auto why_not = refuses(tensor)) fail(ErrorKind::unsupported, "{}", *why_not);
  check_box(tensor);
  std::array<std::uint64_t, TensorBox::kRank> sizes{};
  std::array<std::uint64_t, TensorBox::kRank - 1> strides{};
  std::array<std::uint32_t, TensorBox::kRank> box{}, steps{};
  for (std::size_t i = 0; i < TensorBox::kRank; ++i) {
    sizes[i] = static_cast<std::uint64_t>(tensor.sizes[i]);
    box[i] = static_cast<std::uint32_t>(tensor.box[i]);
    steps[i] = 1;
    if (i == 0) continue;
    const std::int64_t bytes = tensor.strides[i - 1] * bytes_of(tensor.element);
    strides[i - 1] = static_cast<std::uint64_t>(tensor.sizes[i] == 1 ? kAlignment : bytes);
  }
  TensorMapBytes map{};
  driver().encode_tensor_map(&map, tensor.element, tensor.rank, const_cast<void*>(tensor.base), sizes.data(),
                             strides.data(), box.data(), steps.data(), TensorInterleave::none, tensor.swizzle,
                             tensor.promotion, TensorFill::zero);
  return map;
}

}  // namespace stof::cuda
