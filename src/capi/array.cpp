// SPDX-License-Identifier: Apache-2.0
#include "src/capi/array.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/capi/boundary.h"

namespace stof::capi {
namespace {

constexpr std::int32_t kMostRank = 4;

constexpr std::array kDTypes{DType::f32, DType::f16, DType::bf16, DType::i32, DType::boolean};
static_assert(kDTypes[STOF_F32] == DType::f32 && kDTypes[STOF_F16] == DType::f16 && kDTypes[STOF_BF16] == DType::bf16);
static_assert(kDTypes[STOF_I32] == DType::i32 && kDTypes[STOF_BOOL] == DType::boolean);

// Elements further apart than any two addresses would not be where the sum of strides says.
void check_strides(const TensorView& view, std::string_view name, bool given) {
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    const std::int64_t most =
        kMostBytes / (static_cast<std::int64_t>(size_of(view.dtype)) * std::max<std::int64_t>(1, view.shape[i]));
    if (view.strides[i] >= -most && view.strides[i] <= most) continue;
    if (!given)
      fail(ErrorKind::invalid_argument, "{}.shape is {}; accepted: at most {} bytes", name, to_string(view.shape),
           kMostBytes);
    fail(ErrorKind::invalid_argument, "{}.strides[{}] is {}; accepted: {} to {} elements", name, i, view.strides[i],
         -most, most);
  }
}

}  // namespace

DType dtype_of(std::string_view name, std::int32_t dtype) {
  if (dtype < 0 || dtype >= std::int32_t{kDTypes.size()})
    fail(ErrorKind::invalid_argument, "{} is {}; accepted: 0..{}, a stof_dtype", name, dtype, kDTypes.size() - 1);
  return kDTypes[static_cast<std::size_t>(dtype)];
}

void check_aligned(std::string_view name, const void* address, DType dtype) {
  if (reinterpret_cast<std::uintptr_t>(address) % size_of(dtype) != 0)
    fail(ErrorKind::invalid_argument, "{} is at {}; accepted for {}: a multiple of {}", name, address, name_of(dtype),
         size_of(dtype));
}

TensorView view_of(const stof_array* array, std::string_view name) {
  const stof_array& given_array = given(array, name);
  TensorView view;
  view.dtype = dtype_of(fmt::format("{}.dtype", name), given_array.dtype);
  if (given_array.rank < 1 || given_array.rank > kMostRank)
    fail(ErrorKind::invalid_argument, "{}.rank is {}; accepted: 1..{}", name, given_array.rank, kMostRank);
  const std::int64_t* const shape = &given(given_array.shape, fmt::format("{}.shape", name));
  view.shape.assign(shape, shape + given_array.rank);
  const bool empty = element_count(view.shape) == 0;
  if (given_array.strides != nullptr) view.strides.assign(given_array.strides, given_array.strides + given_array.rank);
  else view.strides = contiguous_strides(view.shape);
  if (!empty) check_strides(view, name, given_array.strides != nullptr);
  view.data = const_cast<void*>(given_array.data);  // masks copy from it
  check_aligned(fmt::format("{}.data", name), view.data, view.dtype);
  check_host_address(name, ".data", view.data);
  return view;
}

}  // namespace stof::capi
