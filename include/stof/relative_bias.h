// SPDX-License-Identifier: Apache-2.0
// What attention adds to scores by how far a key is from its query, head by head: the relative position biases of T5
// and MPNet, the linear ones of ALiBi, or any other function of the distance.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "stof/device.h"

namespace stof {

// Made once, on a device; copies share its memory. Row i of an item has position i + keys - queries, and key j has j.
class RelativeBias {
 public:
  // values: f32 [heads, 2 * reach + 1], row after row: values[h][reach + d] is added to what head h scores a key whose
  // position is that of its query plus d, which is below 0 for earlier keys. Keys further away than `reach` have the
  // value of the furthest one. Finite, at most 2^20 in magnitude; heads from 1, reach 0..2^24. Throws invalid_argument.
  RelativeBias(std::span<const float> values, std::int64_t heads, std::int64_t reach, const Device& device);
  // -slope * |d|, of a slope for each head (Press et al., Train Short, Test Long, 2021). Beyond `reach` it falls no
  // further: take the longest item's keys.
  static RelativeBias alibi(std::span<const float> slopes, std::int64_t reach, const Device& device);

  // The same on another device; this one's is the host's, or throws invalid_argument.
  RelativeBias on(const Device& device) const;

  std::int64_t heads() const { return heads_; }
  std::int64_t reach() const { return reach_; }
  const Device& device() const { return device_; }
  // As kernels read it (ScoreBias of src/backend/contract.h).
  const std::shared_ptr<const void>& memory() const { return memory_; }

 private:
  RelativeBias() = default;
  std::int64_t heads_ = 0, reach_ = 0;
  Device device_;
  std::shared_ptr<const void> memory_;
};

}  // namespace stof
