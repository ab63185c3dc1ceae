// SPDX-License-Identifier: Apache-2.0
// The named functions of mask.h whose arguments are numbers, with the checks of their arguments.
#include <algorithm>

#include "src/mask/argument.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

constexpr Limits kCount{0, kMaxParameter};
constexpr Limits kPositive{1, kMaxParameter};
constexpr Limits kPosition{0, kMaxExtent};

void check_blocks(std::string_view term, std::int64_t size) {
  check_argument({0}, fmt::format("{}: block size", term), size, {1, kMaxExtent});
}

}  // namespace

Mask all() { return make_mask(term::All{}); }

Mask none() { return make_mask(term::None{}); }

Mask causal() { return make_mask(term::Causal{}); }

Mask window(std::int64_t both) {
  check_argument({0}, "window: w", both, kCount);
  return make_mask(term::Window{both, both});
}

Mask window(std::int64_t left, std::int64_t right) {
  check_argument({0}, "window: l", left, kCount);
  check_argument({1}, "window: r", right, kCount);
  return make_mask(term::Window{left, right});
}

Mask dilated(std::int64_t steps, std::int64_t dilation) {
  check_argument({0}, "dilated: n", steps, kCount);
  check_argument({1}, "dilated: d", dilation, kPositive);
  if (steps > kMaxParameter / dilation)
    fail_argument({0}, "dilated: n * d = {} * {}; accepted: at most {}", steps, dilation, kMaxParameter);
  return make_mask(term::Dilated(steps, dilation));
}

Mask strided(std::int64_t stride) {
  check_argument({0}, "strided: s", stride, kPositive);
  return make_mask(term::Strided(stride));
}

Mask global_tokens(std::int64_t first) {
  check_argument({0}, "global: g", first, kCount);
  return make_mask(term::Global{.first = first, .positions = {}});
}

Mask global_tokens(std::vector<std::int64_t> positions) {
  check_elements("global", positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i)
    check_argument({0, static_cast<std::int64_t>(i)}, "global: a position", positions[i], kPosition);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  // The positions that continue 0, 1, 2, ... are a count.
  std::int64_t first = 0;
  for (const std::int64_t position : positions) first += position == first ? 1 : 0;
  positions.erase(positions.begin(), positions.begin() + first);
  return make_mask(term::Global{.first = first, .positions = std::move(positions)});
}

Mask sink(std::int64_t keys) {
  check_argument({0}, "sink: g", keys, kCount);
  return make_mask(term::Sink{keys});
}

Mask prefix(std::int64_t keys) {
  check_argument({0}, "prefix: n", keys, kCount);
  return make_mask(term::Prefix{keys});
}

Mask documents(std::vector<std::int64_t> starts) {
  check_elements("documents", starts.size());
  if (starts.empty() || starts[0] != 0)
    fail_argument({0, starts.empty() ? -1 : 0}, "documents: {}; accepted: starts that ascend from 0",
                  starts.empty() ? std::string("no starts") : fmt::format("the first start is {}", starts[0]));
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    if (starts[i] <= starts[i - 1])
      fail_argument({0, element}, "documents: start {} follows {}; accepted: starts that ascend from 0", starts[i],
                    starts[i - 1]);
    check_argument({0, element}, "documents: a start", starts[i], kPosition);
  }
  return make_mask(term::Documents{std::move(starts)});
}

Mask segments(std::vector<Segment> segments) {
  check_elements("segments", segments.size(), kMaxSegments);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    const auto element = static_cast<std::int64_t>(i);
    for (const std::int64_t bound : {s.query_begin, s.query_end, s.key_begin, s.key_end})
      check_argument({0, element}, "segments: a bound", bound, kPosition);
    if (s.query_begin > s.query_end || s.key_begin > s.key_end)
      fail_argument({0, element}, "segments: queries [{}, {}) keys [{}, {}); accepted: begin <= end", s.query_begin,
                    s.query_end, s.key_begin, s.key_end);
  }
  return make_mask(term::Segments(std::move(segments)));
}

Mask random_blocks(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  check_blocks("random_blocks", size);
  check_argument({1}, "random_blocks: n", count, kCount);
  return make_mask(term::RandomBlocks{size, count, seed});
}

Mask tree(std::vector<std::int64_t> parents) {
  check_elements("tree", parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (const auto node = static_cast<std::int64_t>(i); parents[i] < -1 || parents[i] >= node)
      fail_argument({0, node}, "tree: node {} has parent {}; accepted: -1 for a root, or an earlier node", node,
                    parents[i]);
  return make_mask(term::Tree{std::move(parents)});
}

Mask natten(std::int64_t height, std::int64_t width, std::int64_t kernel_height, std::int64_t kernel_width) {
  constexpr Limits kSide{1, std::int64_t{1} << 20};
  check_argument({0}, "natten: h", height, kSide);
  check_argument({1}, "natten: w", width, kSide);
  check_argument({2}, "natten: kh", kernel_height, {1, height});
  check_argument({3}, "natten: kw", kernel_width, {1, width});
  if (kernel_height % 2 == 0) fail_argument({2}, "natten: kh = {}; accepted: an odd number", kernel_height);
  if (kernel_width % 2 == 0) fail_argument({3}, "natten: kw = {}; accepted: an odd number", kernel_width);
  return make_mask(term::Natten{height, width, kernel_height, kernel_width});
}

Mask longformer(std::int64_t window_, std::int64_t global) {
  check_argument({0}, "longformer: w", window_, kCount);
  check_argument({1}, "longformer: g", global, kCount);
  return window(window_) | global_tokens(global);
}

Mask bigbird(std::int64_t block, std::int64_t window, std::int64_t global, std::int64_t random, std::uint64_t seed) {
  check_blocks("bigbird", block);
  check_argument({1}, "bigbird: w", window, kPositive);
  if (window % 2 == 0) fail_argument({1}, "bigbird: w = {}; accepted: an odd number of blocks", window);
  check_argument({2}, "bigbird: g", global, kCount);
  check_argument({3}, "bigbird: r", random, kCount);
  return make_mask(term::BigBird{block, window, global, random, seed});
}

}  // namespace stof
