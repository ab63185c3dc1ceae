// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/dense_mask.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <random>

namespace stof::bench {

std::uint64_t DenseMask::row_word(int q, int key) const {
  const std::uint64_t* row = &bits[std::size_t(q) * words_per_row()];
  const int word = key / 64, shift = key % 64;
  std::uint64_t value = word < words_per_row() ? row[word] >> shift : 0;
  if (shift && word + 1 < words_per_row()) value |= row[word + 1] << (64 - shift);
  return value;
}

double DenseMask::density() const {
  double count = 0;
  for (const std::uint64_t word : bits) count += std::popcount(word);
  return count / (double(queries) * keys);
}

DenseMask make_mask(std::string name, int queries, int keys, const std::function<bool(int q, int k)>& allows) {
  DenseMask mask{std::move(name), queries, keys, {}};
  mask.bits.assign(std::size_t(queries) * mask.words_per_row(), 0);
  for (int q = 0; q < queries; ++q)
    for (int k = 0; k < keys; ++k)
      if (allows(q, k)) mask.bits[std::size_t(q) * mask.words_per_row() + k / 64] |= std::uint64_t{1} << (k % 64);
  return mask;
}

DenseMask causal(int length) {
  return make_mask("causal", length, length, [](int q, int k) { return k <= q; });
}

DenseMask window(int length, int reach) {
  return make_mask("window(" + std::to_string(reach) + ")", length, length,
                   [=](int q, int k) { return std::abs(q - k) <= reach; });
}

DenseMask dilated(int length, int count, int step) {
  return make_mask("dilated(" + std::to_string(count) + "," + std::to_string(step) + ")", length, length,
                   [=](int q, int k) { return std::abs(q - k) <= count * step && (q - k) % step == 0; });
}

DenseMask longformer(int length, int reach, int globals) {
  return make_mask("longformer(" + std::to_string(reach) + "," + std::to_string(globals) + ")", length, length,
                   [=](int q, int k) { return std::abs(q - k) <= reach || q < globals || k < globals; });
}

DenseMask bigbird(int length, int block, int random_blocks, unsigned seed) {
  const int n = length / block;
  std::vector<char> on(std::size_t(n) * n);
  std::mt19937 generator(seed);
  for (int i = 0; i < n; ++i) {
    int free = 0;
    for (int j = 0; j < n; ++j) {
      on[i * n + j] = std::abs(i - j) <= 1 || i == 0 || j == 0 || i == n - 1 || j == n - 1;
      free += !on[i * n + j];
    }
    for (int left = std::min(random_blocks, free); left > 0;) {
      char& cell = on[i * n + generator() % n];
      if (!cell) cell = 1, --left;
    }
  }
  return make_mask("bigbird(" + std::to_string(block) + ",3,2," + std::to_string(random_blocks) + ")", length, length,
                   [&](int q, int k) { return on[q / block * n + k / block] != 0; });
}

DenseMask documents(int length, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int> document(length);
  for (int at = 0, id = 0; at < length; ++id)
    for (int end = std::min<int>(length, at + 512 + generator() % 989); at < end; ++at) document[at] = id;
  return make_mask("documents & causal", length, length,
                   [&](int q, int k) { return k <= q && document[q] == document[k]; });
}

DenseMask random_elements(int queries, int keys, double density, unsigned seed) {
  std::mt19937 generator(seed);
  std::bernoulli_distribution coin(density);
  return make_mask("random", queries, keys, [&](int q, int k) { return coin(generator) && q % 7 != 3 && k != 5; });
}

namespace {

// Keys that any row of the block may attend to.
std::vector<std::uint64_t> union_of_rows(const DenseMask& mask, int begin, int end) {
  std::vector<std::uint64_t> any(mask.words_per_row() + 1, 0);
  for (int q = begin; q < end; ++q)
    for (int w = 0; w < mask.words_per_row(); ++w) any[w] |= mask.bits[std::size_t(q) * mask.words_per_row() + w];
  return any;
}

int first_key(const std::vector<std::uint64_t>& any, int from) {
  for (int w = from / 64; w < int(any.size()); ++w) {
    const std::uint64_t rest = w == from / 64 ? any[w] & ~std::uint64_t{0} << (from % 64) : any[w];
    if (rest) return w * 64 + std::countr_zero(rest);
  }
  return -1;
}

}  // namespace

BlockLayout scan_blocks(const DenseMask& mask, const BlockFormat& format) {
  BlockLayout layout;
  layout.format = format;
  layout.extent = {mask.queries, mask.keys, 1, 1};
  layout.positions = {0, mask.queries};
  layout.group_of = {0};
  layout.groups = 1;
  layout.row_blocks = (mask.queries + format.block_q - 1) / format.block_q;
  layout.row_begin.push_back(0);
  std::map<std::vector<std::uint64_t>, int> known;
  for (int begin = 0; begin < mask.queries; begin += format.block_q) {
    const int end = std::min(mask.queries, begin + format.block_q);
    const std::vector<std::uint64_t> any = union_of_rows(mask, begin, end);
    for (int key = first_key(any, 0); key >= 0;) {
      BlockEntry entry{key / format.key_step * format.key_step};
      std::vector<std::uint64_t> tile(format.block_q, 0);
      bool full = entry.key_start + 64 <= mask.keys;
      for (int q = begin; q < end; ++q) {
        tile[q - begin] = mask.row_word(q, entry.key_start);
        if (tile[q - begin]) entry.parts |= 1u << (q - begin) / 64;
        full &= tile[q - begin] == ~std::uint64_t{0};
      }
      if (!full) {
        const auto [at, added] = known.try_emplace(tile, int(known.size()));
        if (added) layout.bitmaps.insert(layout.bitmaps.end(), tile.begin(), tile.end());
        entry.bitmap = at->second;
      }
      layout.entries.push_back(entry);
      key = first_key(any, std::min(entry.key_start + 64, int(any.size()) * 64 - 1));
      if (key >= 0 && key < entry.key_start + 64) break;
    }
    layout.row_begin.push_back(std::int64_t(layout.entries.size()));
  }
  return layout;
}

}  // namespace stof::bench
