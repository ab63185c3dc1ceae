// SPDX-License-Identifier: Apache-2.0
// Fingerprints: 128-bit content hashes (XXH3), stable across machines and runs.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stof {

struct Fingerprint {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
  std::string hex() const;  // 32 digits
};

Fingerprint fingerprint_of(std::span<const std::byte> bytes);
Fingerprint fingerprint_of(std::string_view text);
std::uint64_t hash64(const void* data, std::size_t bytes);

// Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit integers with good avalanche.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace stof
