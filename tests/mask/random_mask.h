// SPDX-License-Identifier: Apache-2.0
// Random masks that fit an extent, for properties: every term occurs, alone and combined.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "src/mask/range.h"
#include "stof/mask.h"

namespace stof {

class RandomMask {
 public:
  // The text of terms with arrays does not parse back, so `with_arrays` may leave them out.
  RandomMask(unsigned seed, const MaskExtent& extent, bool with_arrays)
      : random_(seed), extent_(extent), with_arrays_(with_arrays) {}

  std::int64_t below(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  Mask expression(int depth) {
    if (depth == 0 || below(4) == 0) return leaf();
    switch (below(6)) {
      case 0: return !expression(depth - 1);
      case 1:
      case 2: return expression(depth - 1) & expression(depth - 1);
      case 3: return selection(depth);
      default: return expression(depth - 1) | expression(depth - 1);
    }
  }

  Mask leaf() {
    const std::int64_t keys = extent_.keys, which = below(with_arrays_ ? 19 : 15);
    switch (which) {
      case 0: return below(2) == 0 ? all() : none();
      case 1: return causal();
      case 2: return window(below(keys));
      case 3: return window(below(12), below(12));
      case 4: return dilated(below(9), 1 + below(7));
      case 5: return strided(1 + below(20));
      case 6: return below(2) == 0 ? global_tokens(below(9)) : global_tokens(positions(1 + below(6)));
      case 7: return sink(below(keys));
      case 8: return prefix(below(keys));
      case 9: return documents(starts());
      case 10: return random_segments();
      case 11: return random_blocks(1 + below(20), below(4), seed());
      case 12: return bigbird(1 + below(20), 1 + 2 * below(3), below(4), below(4), seed());
      case 13: return where(std::string(kExpressions[static_cast<std::size_t>(below(std::size(kExpressions)))]));
      case 14: return extent_.queries == extent_.keys ? random_grid() : leaf();
      case 15: return random_tree();
      case 16: return random_bits();
      case 17: return random_block_table();
      default: return random_ids();
    }
  }

 private:
  static constexpr const char* kExpressions[] = {
      "(q - k) % 4 == 0 & q >= k", "q / 16 == k / 16", "abs(q - k) <= 5 | k < 3", "(q + k) % 3",
      "h % 2 == 0 & k <= q",       "b == h | q == k",  "max(q, k) < 20",          "min(q - 3, k) * 2 > k + h",
      "!(q & 3) | (k | 1) == q",   "-q / 5 <= -k / 7", "q * k % 11 < 4",          "k / max(q, 1) == 0",
      "(q < k) == (h < 2)"};

  std::uint64_t seed() { return static_cast<std::uint64_t>(below(1000)); }

  std::vector<std::int64_t> positions(std::int64_t count) {
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < count; ++i) chosen.push_back(below(extent_.keys));
    return chosen;
  }

  std::vector<std::int64_t> starts() {
    std::vector<std::int64_t> chosen = positions(1 + below(5));
    chosen.push_back(0);
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return chosen;
  }

  Mask random_segments() {
    std::vector<Segment> chosen;
    for (std::int64_t n = below(5); n >= 0; --n) {
      const std::vector<std::int64_t> at = positions(4);
      chosen.push_back({.query_begin = std::min(at[0], at[1]),
                        .query_end = std::max(at[0], at[1]) + 1,
                        .key_begin = std::min(at[2], at[3]),
                        .key_end = std::max(at[2], at[3]) + 1,
                        .causal = below(2) == 0});
    }
    return segments(std::move(chosen));
  }

  // Every key is a cell of it, which lengths other than the extent's do not have.
  Mask random_grid() {
    std::vector<std::int64_t> heights;
    for (std::int64_t height = 1; height <= extent_.keys; ++height)
      if (extent_.keys % height == 0) heights.push_back(height);
    const std::int64_t height = heights[static_cast<std::size_t>(below(std::ssize(heights)))];
    const std::int64_t width = extent_.keys / height;
    return natten(height, width, odd_up_to(height), odd_up_to(width));
  }

  std::int64_t odd_up_to(std::int64_t most) { return 1 + 2 * below((most + 1) / 2); }

  Mask random_tree() {
    const std::int64_t branching = 1 + below(5);
    std::vector<std::int64_t> parents;
    for (std::int64_t i = 0; i < extent_.keys; ++i)
      parents.push_back(below(20) == 0 ? -1 : std::max<std::int64_t>(i - 1 - below(branching), -1));
    return tree(std::move(parents));
  }

  Tensor random_booleans(const Shape& shape) {
    Tensor tensor(DType::boolean, shape);
    const std::int64_t run = 1 + below(40);  // long runs make full and empty tiles
    bool value = false;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      if (below(run) == 0) value = !value;
      tensor.as<std::uint8_t>()[i] = value ? 1 : 0;
    }
    return tensor;
  }

  Mask random_bits() {
    Shape shape{extent_.queries, extent_.keys};
    if (below(2) == 0) shape.insert(shape.begin(), below(2) == 0 ? 1 : extent_.heads);
    if (shape.size() == 3 && below(2) == 0) shape.insert(shape.begin(), below(2) == 0 ? 1 : extent_.batch);
    if (below(5) == 0) shape[shape.size() - 1 - static_cast<std::size_t>(below(2))] = 1;
    return bits(random_booleans(shape).view());
  }

  Mask random_block_table() {
    const std::int64_t size = 1 + below(20), count = ceil_div(extent_.keys, size);
    return blocks(size,
                  random_booleans(below(2) == 0 ? Shape{count, count} : Shape{extent_.heads, count, count}).view());
  }

  Mask random_ids() {
    Tensor ids(DType::i32, below(2) == 0 ? Shape{extent_.keys} : Shape{extent_.batch, extent_.keys});
    const std::int64_t run = 1 + below(30);
    std::int32_t id = 0;
    for (std::int64_t i = 0; i < ids.size(); ++i) {
      if (below(run) == 0) id = static_cast<std::int32_t>(below(5)) - 1;
      ids.as<std::int32_t>()[i] = id;
    }
    return document_ids(ids.view());
  }

  Mask selection(int depth) {
    const std::int64_t first = below(extent_.heads);
    if (below(2) == 0) return heads({{0, first, expression(depth - 1)}}, expression(depth - 1));
    const std::int64_t item = below(extent_.batch);
    return batch({{item, item, expression(depth - 1)}}, expression(depth - 1));
  }

  std::mt19937 random_;
  MaskExtent extent_;
  bool with_arrays_;
};

}  // namespace stof
