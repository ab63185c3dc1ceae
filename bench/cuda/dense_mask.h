// SPDX-License-Identifier: Apache-2.0
// Masks of the development harness as plain bits, and a packer that scans them: slow, obvious, independent of the
// library's own.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/layout/block_layout.h"

namespace stof::bench {

struct DenseMask {
  std::string name;
  int queries = 0, keys = 0;
  std::vector<std::uint64_t> bits;  // [queries][words_per_row]

  int words_per_row() const { return (keys + 63) / 64; }
  bool allows(int q, int k) const { return bits[std::size_t(q) * words_per_row() + k / 64] >> (k % 64) & 1; }
  std::uint64_t row_word(int q, int key) const;  // 64 bits from any key on, zeros past the end
  double density() const;
};

DenseMask make_mask(std::string name, int queries, int keys, const std::function<bool(int q, int k)>& allows);

DenseMask causal(int length);
DenseMask window(int length, int reach);
DenseMask dilated(int length, int count, int step);
DenseMask longformer(int length, int reach, int globals);
DenseMask bigbird(int length, int block, int random_blocks, unsigned seed);
DenseMask documents(int length, unsigned seed);  // lengths 512 to 1500, causal inside
DenseMask random_elements(int queries, int keys, double density, unsigned seed);

// Entries start at multiples of format.key_step, where the first key that is still missing asks for it.
BlockLayout scan_blocks(const DenseMask& mask, const BlockFormat& format);

}  // namespace stof::bench
