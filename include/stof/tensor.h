// SPDX-License-Identifier: Apache-2.0
// Dense arrays: a borrowed view with strides, and an owner of aligned memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

enum class DType : std::uint8_t { f32, f16, bf16, i32, i64, boolean };

std::size_t size_of(DType dtype) noexcept;       // of an element, in bytes
std::string_view name_of(DType dtype) noexcept;  // as parse_dtype reads it
// "f32" (also "fp32", "float32"), "f16", "bf16", "i32", "i64", "bool"; throws invalid_argument with the accepted names.
DType parse_dtype(std::string_view text);

using Shape = std::vector<std::int64_t>;

std::string to_string(const Shape& shape);  // "[2, 12, 512, 64]"
// Product of the dimensions; throws invalid_argument when one is negative or the product overflows.
std::int64_t element_count(const Shape& shape);
Shape contiguous_strides(const Shape& shape);  // C order, in elements

// Borrowed memory. Strides are in elements; data may be null only when a dimension is 0.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;

  std::int64_t dim(std::size_t i) const { return shape.at(i); }
  std::size_t rank() const { return shape.size(); }
  bool contiguous() const { return strides == contiguous_strides(shape); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

TensorView view_of(void* data, DType dtype, Shape shape);  // contiguous

// Owned, contiguous, 64-byte aligned, not initialised.
class Tensor {
 public:
  Tensor() = default;
  // Throws invalid_argument for a bad shape, device when the memory cannot be had (with the size asked for).
  Tensor(DType dtype, Shape shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return element_count(shape_); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype_); }
  void* data() const { return data_.get(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  TensorView view() const { return view_of(data(), dtype_, shape_); }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  DType dtype_ = DType::f32;
  Shape shape_ = {0};
  std::unique_ptr<void, Free> data_;
};

}  // namespace stof
