// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backend/cuda/attention/register_order.cpp"
#include "src/backend/cuda/attention/register_order.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stof::cuda::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<std::uint64_t, 8> kRows;
using Rows = hn::Vec<decltype(kRows)>;

// Exchanges the bits at `lower` with those `kBy` above them.
template <int kBy>
Rows exchange(Rows bits, std::uint64_t lower) {
  const Rows differ = hn::And(hn::Xor(bits, hn::ShiftRight<kBy>(bits)), hn::Set(kRows, lower));
  return hn::Xor(bits, hn::Xor(differ, hn::ShiftLeft<kBy>(differ)));
}

// Of 16 elements of 4 bits, those at even places below those at odd ones.
Rows even_below_odd(Rows elements) {
  elements = exchange<4>(elements, 0x00F000F000F000F0u);
  elements = exchange<8>(elements, 0x0000FF000000FF00u);
  return exchange<16>(elements, 0x00000000FFFF0000u);
}

// Four threads hold two rows, eight rows apart, each two of every eight columns.
void order(const std::uint64_t* rows, std::uint32_t* words) {
  auto* const pairs = reinterpret_cast<std::uint64_t*>(words);  // two threads' words, the first one's below
  const Rows low_pairs = hn::Set(kRows, 0x3333333333333333u);   // columns of threads 0 and 2
  const Rows low_half = hn::Set(kRows, 0xFFFFFFFFu);
  for (std::size_t warp = 0; warp < 4; ++warp)
    for (std::size_t i = 0; i < 8; i += hn::Lanes(kRows)) {
      const std::size_t row = 16 * warp + i;
      const Rows upper = hn::LoadU(kRows, rows + row), lower = hn::LoadU(kRows, rows + row + 8);
      const Rows even = even_below_odd(hn::Or(hn::And(upper, low_pairs), hn::ShiftLeft<2>(hn::And(lower, low_pairs))));
      const Rows odd =
          even_below_odd(hn::Or(hn::And(hn::ShiftRight<2>(upper), low_pairs), hn::AndNot(low_pairs, lower)));
      const Rows first = hn::Or(hn::And(even, low_half), hn::ShiftLeft<32>(odd)),
                 second = hn::Or(hn::ShiftRight<32>(even), hn::AndNot(low_half, odd));
      hn::StoreInterleaved2(first, second, kRows, pairs + 16 * warp + 2 * i);
    }
}

}  // namespace stof::cuda::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::cuda {

HWY_EXPORT(order);

TileWords in_register_order(std::span<const std::uint64_t, 64> rows) {
  TileWords words;
  HWY_DYNAMIC_DISPATCH(order)(rows.data(), words.data());
  return words;
}

}  // namespace stof::cuda
#endif
