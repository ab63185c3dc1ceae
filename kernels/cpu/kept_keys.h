// SPDX-License-Identifier: Apache-2.0
// Keys and values that a thread has packed for one row-block and keeps for the next ones of the same head. In a model's
// q, k and v side by side, keys lie on a page each and meet in a few sets of the cache.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention_task.h"

namespace stof::cpu {

class KeptKeys {
 public:
  // Of memory, 64-byte aligned: a share of the last-level cache.
  static constexpr std::size_t kBytes = 4 << 20;

  // Before the first task of a call: nothing is kept from an earlier one, whose rows may have been others at the same
  // place.
  static void forget(void* memory) { std::memset(memory, 0, sizeof(Header)); }

  KeptKeys() = default;  // no block has a place
  // Of blocks of `floats` of keys and as many of values; those of another head are dropped.
  KeptKeys(void* memory, const AttentionHead& head, std::int64_t floats)
      : header_(static_cast<Header*>(memory)),
        data_(static_cast<float*>(memory) + sizeof(Header) / sizeof(float)),
        floats_(floats) {
    const auto bytes = static_cast<std::size_t>(2 * floats) * sizeof(float);
    places_ = static_cast<int>(std::min<std::size_t>(kMost, (kBytes - sizeof(Header)) / bytes));
    if (header_->k == head.k && header_->v == head.v && header_->k_stride == head.k_stride &&
        header_->v_stride == head.v_stride && header_->keys == head.keys)
      return;
    forget(memory);
    header_->k = head.k, header_->v = head.v;
    header_->k_stride = head.k_stride, header_->v_stride = head.v_stride;
    header_->keys = head.keys;
  }

  bool has_place(int block) const { return block < places_; }
  bool has(int block) const { return has_place(block) && header_->packed[block] != 0; }
  void set(int block) const { header_->packed[block] = 1; }
  float* keys(int block) const { return data_ + 2 * block * floats_; }
  float* values(int block) const { return keys(block) + floats_; }

 private:
  static constexpr int kMost = 960;  // blocks: the header is a multiple of 64 bytes
  struct alignas(64) Header {
    const void* k;
    const void* v;
    std::int64_t k_stride, v_stride;
    int keys;
    std::uint8_t packed[kMost];
  };

  Header* header_ = nullptr;
  float* data_ = nullptr;
  std::int64_t floats_ = 0;
  int places_ = 0;
};

}  // namespace stof::cpu
