// SPDX-License-Identifier: Apache-2.0
// A mask of one's own: written as a lambda, combined with named terms, looked at, checked, printed and parsed back.
#include <algorithm>
#include <cstdio>

#include "stof/inspect.h"
#include "stof/where.h"

namespace {

// A window that grows with the position, every third key before it, and two keys that all see.
stof::Mask invent() {
  const stof::Mask growing =
      stof::where([](auto, auto, auto q, auto k) { return q - k >= 0 && q - k <= 2 + min(q, 48) / 8; });
  return growing | (stof::causal() & stof::strided(3)) | stof::sink(2);
}

bool allowed(std::int64_t q, std::int64_t k) {
  const bool growing = k <= q && q - k <= 2 + std::min<std::int64_t>(q, 48) / 8;
  return growing || (k <= q && (q - k) % 3 == 0) || k < 2;
}

std::int64_t count_differences(const stof::Mask& mask, const stof::MaskExtent& extent) {
  const stof::Tensor dense = stof::dense_mask(mask, extent);  // [1, 1, queries, keys]
  const auto* element = dense.as<std::uint8_t>();
  std::int64_t differences = 0;
  for (std::int64_t row = 0; row < extent.queries; ++row)
    for (std::int64_t key = 0; key < extent.keys; ++key)
      differences += (*element++ != 0) != allowed(row + extent.offset(), key) ? 1 : 0;
  return differences;
}

}  // namespace

int main() {
  const stof::Mask mask = invent();
  std::printf("%s\n\n%s\n", mask.text().c_str(), stof::draw(mask, {.queries = 24, .keys = 24}).c_str());

  const stof::MaskExtent whole{.queries = 1024, .keys = 1024}, last_rows{.queries = 16, .keys = 1024};
  const stof::MaskSummary summary = stof::summarise(mask, whole);
  std::printf("of 1024 x 1024 pairs, %.0f are allowed: %.1f %%\n", summary.allowed_pairs, 100 * summary.density);

  // Positions belong to the sequence, not to the rows: the last 16 queries see what they saw among all.
  const std::int64_t differences = count_differences(mask, whole) + count_differences(mask, last_rows);
  const bool same = stof::parse(mask.text()) == mask;
  std::printf("elements that differ from the definition: %lld; its text parses back to %s mask\n",
              static_cast<long long>(differences), same ? "an equal" : "another");
  return differences == 0 && same ? 0 : 1;
}
