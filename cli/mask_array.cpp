// SPDX-License-Identifier: Apache-2.0
#include "cli/mask_array.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "src/base/atomic_file.h"
#include "src/tensor/npy_header.h"

namespace stof::cli {
namespace {

constexpr std::int64_t kBufferBytes = 1 << 20;
static_assert(std::endian::native == std::endian::little, "eight flags are stored as one word");

// Bit i of a byte as byte i of a word.
std::uint64_t spread(std::uint64_t bits) {
  const std::uint64_t each = bits * 0x0101010101010101ull & 0x8040201008040201ull;
  return (each + 0x7F7F7F7F7F7F7F7Full) >> 7 & 0x0101010101010101ull;
}

// Bits of one row as bools. `out` holds at least a multiple of 64.
void spread_row(std::span<const std::uint64_t> words, std::uint8_t* out) {
  for (const std::uint64_t word : words)
    for (int byte = 0; byte < 8; ++byte, out += 8) {
      const std::uint64_t eight = spread(word >> (8 * byte) & 0xFF);
      std::memcpy(out, &eight, 8);
    }
}

class ArrayWriter {
 public:
  ArrayWriter(AtomicFile& file, const BoundMask& mask)
      : file_(file),
        mask_(mask),
        words_((mask.extent().keys + 63) / 64),
        rows_(std::clamp<std::int64_t>(kBufferBytes / (words_ * 64), 1, mask.extent().queries)),
        bits_(static_cast<std::size_t>(rows_ * words_)),
        bytes_(static_cast<std::size_t>(rows_ * mask.extent().keys + 64)) {}

  void append(int group) {
    const auto& [queries, keys, batch, heads] = mask_.extent();
    for (std::int64_t row = 0; row < queries; row += rows_) {
      const std::int64_t count = std::min(rows_, queries - row);
      mask_.tile_bits(group, {row, row + count}, {0, keys}, bits_);
      // A row's last word spills over into the next row, which is written after it.
      for (std::int64_t r = 0; r < count; ++r)
        spread_row(std::span(bits_).subspan(static_cast<std::size_t>(r * words_), static_cast<std::size_t>(words_)),
                   bytes_.data() + r * keys);
      file_.append(std::as_bytes(std::span(bytes_).first(static_cast<std::size_t>(count * keys))));
    }
  }

 private:
  AtomicFile& file_;
  const BoundMask& mask_;
  std::int64_t words_, rows_;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

Shape array_shape(const MaskExtent& extent) {
  if (extent.batch == 1 && extent.heads == 1) return {extent.queries, extent.keys};
  return {extent.batch, extent.heads, extent.queries, extent.keys};
}

void write_mask_array(const std::filesystem::path& path, const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  AtomicFile file(path);
  file.append(npy_header(DType::boolean, array_shape(extent)));
  ArrayWriter writer(file, mask);
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head) writer.append(mask.group_of(item, head));
  file.commit();
}

}  // namespace stof::cli
