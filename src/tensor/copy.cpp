// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"

namespace stof {
namespace {

struct Axis {
  std::int64_t size = 1, from = 0, to = 0;  // elements, strides in elements
};

// A transposing copy touches a cache line per element on one side; a tile keeps those lines until they are used up.
constexpr std::int64_t kTile = 64;

[[maybe_unused]] constexpr std::int64_t kWorthThreads = 1 << 20;  // elements

template <class T>
void copy_plane(const T* from, T* to, const Axis& outer, const Axis& inner) {
#pragma omp parallel for schedule(static) if (outer.size > kTile && outer.size * inner.size >= kWorthThreads)
  for (std::int64_t outer0 = 0; outer0 < outer.size; outer0 += kTile)
    for (std::int64_t inner0 = 0; inner0 < inner.size; inner0 += kTile)
      for (std::int64_t i = outer0; i < std::min(outer0 + kTile, outer.size); ++i)
        for (std::int64_t j = inner0; j < std::min(inner0 + kTile, inner.size); ++j)
          to[i * outer.to + j * inner.to] = from[i * outer.from + j * inner.from];
}

// `axes` from the outermost in; the last two are the plane.
template <class T>
void copy_axes(const T* from, T* to, const std::vector<Axis>& axes, std::size_t level) {
  if (level + 2 == axes.size()) return copy_plane(from, to, axes[level], axes[level + 1]);
  for (std::int64_t i = 0; i < axes[level].size; ++i)
    copy_axes(from + i * axes[level].from, to + i * axes[level].to, axes, level + 1);
}

// The plane is the axis that is nearest in memory in `from` and the one that is nearest in `to`.
std::vector<Axis> loop_order(const TensorView& from, const TensorView& to) {
  std::vector<Axis> axes(2);
  for (std::size_t i = 0; i < from.rank(); ++i)
    if (from.shape[i] != 1) axes.push_back({from.shape[i], from.strides[i], to.strides[i]});
  std::stable_sort(axes.begin() + 2, axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
  if (axes.size() < 4) return axes;
  const auto nearest = std::min_element(axes.begin() + 2, axes.end() - 1, [](const Axis& a, const Axis& b) {
    return std::abs(a.from) < std::abs(b.from);
  });
  std::rotate(nearest, nearest + 1, axes.end() - 1);
  return axes;
}

template <class T>
void copy_elements(const TensorView& from, const TensorView& to) {
  copy_axes(from.as<T>(), to.as<T>(), loop_order(from, to), 0);
}

}  // namespace

void copy(const TensorView& from, const TensorView& to) {
  if (from.dtype != to.dtype || from.shape != to.shape)
    fail(ErrorKind::invalid_argument, "cannot copy {} {} into {} {}", name_of(from.dtype), to_string(from.shape),
         name_of(to.dtype), to_string(to.shape));
  const auto bytes = static_cast<std::size_t>(element_count(from.shape)) * size_of(from.dtype);
  if (bytes == 0) return;
  if (from.contiguous() && to.contiguous()) {
    std::memcpy(to.data, from.data, bytes);
    return;
  }
  switch (size_of(from.dtype)) {
    case 1: return copy_elements<std::uint8_t>(from, to);
    case 2: return copy_elements<std::uint16_t>(from, to);
    case 4: return copy_elements<std::uint32_t>(from, to);
    case 8: return copy_elements<std::uint64_t>(from, to);
  }
  bug("an element size with a copy", __FILE__, __LINE__);
}

}  // namespace stof
