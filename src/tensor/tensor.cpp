// SPDX-License-Identifier: Apache-2.0
#include "stof/tensor.h"

#include <array>
#include <cstdlib>
#include <new>

#include "src/base/error.h"
#include "src/base/large_pages.h"
#include "src/base/memory.h"

namespace stof {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<DTypeInfo, 6> kDTypes{{{DType::f32, "f32", 4},
                                            {DType::f16, "f16", 2},
                                            {DType::bf16, "bf16", 2},
                                            {DType::i32, "i32", 4},
                                            {DType::i64, "i64", 8},
                                            {DType::boolean, "bool", 1}}};
constexpr std::size_t kAlignment = 64;

}  // namespace

std::size_t size_of(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)].name; }

DType parse_dtype(std::string_view text) {
  for (const DTypeInfo& info : kDTypes)
    if (text == info.name) return info.dtype;
  if (text == "fp32" || text == "float32") return DType::f32;
  if (text == "fp16" || text == "float16") return DType::f16;
  if (text == "bfloat16") return DType::bf16;
  fail(ErrorKind::invalid_argument, "unknown dtype '{}'; accepted: f32, f16, bf16, i32, i64, bool", text);
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  bool has_zero = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) fail(ErrorKind::invalid_argument, "shape {} has a negative dimension", to_string(shape));
    if (dim == 0) has_zero = true;
    else if (__builtin_mul_overflow(count, dim, &count))
      fail(ErrorKind::invalid_argument, "shape {} has more than 2^63 - 1 elements", to_string(shape));
  }
  return has_zero ? 0 : count;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

TensorView view_of(void* data, DType dtype, Shape shape) {
  Shape strides = contiguous_strides(shape);
  return {.data = data, .dtype = dtype, .shape = std::move(shape), .strides = std::move(strides)};
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const auto count = static_cast<std::size_t>(element_count(shape_));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size_of(dtype), &bytes) || bytes > SIZE_MAX - kAlignment)
    fail(ErrorKind::invalid_argument, "a {} tensor of shape {} does not fit the address space", name_of(dtype),
         to_string(shape_));
  if (bytes == 0) return;
  if (bytes > memory_limit())
    fail(ErrorKind::device, "a {} tensor of shape {} takes {} bytes; accepted: at most {}, the memory of this machine",
         name_of(dtype), to_string(shape_), bytes, memory_limit());
  // A matmul touches more small pages of weights and activations than a processor keeps the addresses of.
  const std::size_t alignment = bytes < kLargePage ? kAlignment : kLargePage;
  void* memory = nullptr;
  // Not aligned_alloc: its sizes are multiples of the alignment.
  if (posix_memalign(&memory, alignment, (bytes + kAlignment - 1) / kAlignment * kAlignment) == 0) data_.reset(memory);
  if (!data_)
    fail(ErrorKind::device, "out of memory: {} bytes for a {} tensor of shape {}", bytes, name_of(dtype),
         to_string(shape_));
  prefer_large_pages(data_.get(), bytes);
}

void Tensor::Free::operator()(void* memory) const noexcept { std::free(memory); }

}  // namespace stof
