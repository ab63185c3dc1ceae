// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/mask/pack_bytes.cpp"
#include "src/mask/pack_bytes.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stof::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole words; returns how many bytes were packed.
std::size_t pack_words(const std::uint8_t* bytes, std::size_t count, std::uint64_t* words) {
  const hn::CappedTag<std::uint8_t, 64> tag;
  const std::size_t lanes = hn::Lanes(tag);
  if (lanes % 8 != 0) return 0;
  const std::size_t whole = count / 64 * 64;
  auto* out = reinterpret_cast<std::uint8_t*>(words);
  for (std::size_t i = 0; i < whole; i += lanes)
    hn::StoreMaskBits(tag, hn::Ne(hn::LoadU(tag, bytes + i), hn::Zero(tag)), out + i / 8);
  return whole;
}

}  // namespace stof::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof {

HWY_EXPORT(pack_words);

void pack_bytes(const std::uint8_t* bytes, std::size_t count, std::uint64_t* words) {
  std::size_t packed = HWY_DYNAMIC_DISPATCH(pack_words)(bytes, count, words);
  for (; packed < count; packed += 64) {
    std::uint64_t word = 0;
    for (std::size_t i = packed; i < count && i < packed + 64; ++i)
      word |= static_cast<std::uint64_t>(bytes[i] != 0) << (i - packed);
    words[packed / 64] = word;
  }
}

}  // namespace stof
#endif
