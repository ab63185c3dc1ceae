// SPDX-License-Identifier: Apache-2.0
// The text of a mask: it is refused, or parsed, printed and parsed again to the same mask, and bound to small extents,
// where its three questions must agree.
#include <algorithm>
#include <array>
#include <vector>

#include "src/mask/bind.h"
#include "src/tensor/npy.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using namespace stof;

constexpr MaskExtent kExtents[] = {{.queries = 70, .keys = 70, .batch = 2, .heads = 3},
                                   {.queries = 3, .keys = 70},
                                   {.queries = 9, .keys = 5, .heads = 2},
                                   {.queries = 0, .keys = 0}};

// Arrays that fit the first extent, for bits(), blocks() and document_ids().
struct Arrays {
  fuzz::Folder folder;
  Arrays() {
    const Tensor bits(DType::boolean, {3, 70, 70}), table(DType::boolean, {5, 5}), ids(DType::i32, {2, 70});
    for (std::int64_t i = 0; i < bits.size(); ++i) bits.as<std::uint8_t>()[i] = i * i % 7 < 3;
    for (std::int64_t i = 0; i < table.size(); ++i) table.as<std::uint8_t>()[i] = i % 3 != 1;
    for (std::int64_t i = 0; i < ids.size(); ++i) ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i / 9 % 5) - 1;
    write_npy(folder.path() / "m.npy", bits.view());
    write_npy(folder.path() / "t.npy", table.view());
    write_npy(folder.path() / "d.npy", ids.view());
  }
};

bool bit(const std::vector<std::uint64_t>& words, std::int64_t i) {
  return words[static_cast<std::size_t>(i / 64)] >> (i % 64) & 1;
}

void check_rows(const BoundMask& mask, int group, Range rows, Range keys) {
  const BlockKind kind = mask.classify(group, rows, keys);
  std::vector<std::uint64_t> words(static_cast<std::size_t>((keys.size() + 63) / 64));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    mask.row_bits(group, row, keys, words);
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      const bool allowed = mask.allows(group, row, key);
      fuzz::require(allowed == bit(words, key - keys.begin));
      fuzz::require(kind == BlockKind::partial || allowed == (kind == BlockKind::full));
    }
  }
}

void check(const Mask& mask, const MaskExtent& extent) {
  try {
    const BoundMask bound(mask, extent);
    const std::int64_t half = extent.queries / 2;
    for (int group = 0; group < bound.groups(); ++group)
      for (const Range rows : {Range{0, std::min<std::int64_t>(1, half)}, Range{half, extent.queries}})
        for (const Range keys : {Range{0, extent.keys}, Range{extent.keys / 3, extent.keys}})
          if (!rows.empty() && !keys.empty()) check_rows(bound, group, rows, keys);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Arrays arrays;
  const std::string_view text = fuzz::text_of(data, size);
  try {
    const Mask mask = parse(text, arrays.folder.path());
    fuzz::require(parse(mask.text(), arrays.folder.path()) == mask);
    for (const MaskExtent& extent : kExtents) check(mask, extent);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
