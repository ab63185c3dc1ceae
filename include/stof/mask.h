// SPDX-License-Identifier: Apache-2.0
// Attention masks: an immutable expression over (batch item b, query head h, query position p, key position j).
// With N query rows and M keys, row i has position p = i + M - N and key j has position j; positions are item-local.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stof/tensor.h"

namespace stof {

struct MaskNode;  // src/mask/expression.h

class Mask {
 public:
  explicit Mask(std::shared_ptr<const MaskNode> node) : node_(std::move(node)) {}

  // Text that parse() turns into an equal mask. Arrays held in memory print by fingerprint.
  std::string text() const;
  // Equal masks have equal fingerprints: 32 hexadecimal digits of the normalised tree.
  std::string fingerprint() const;
  const MaskNode& node() const { return *node_; }
  friend bool operator==(const Mask& a, const Mask& b);

 private:
  std::shared_ptr<const MaskNode> node_;
};

Mask operator&(const Mask& a, const Mask& b);
Mask operator|(const Mask& a, const Mask& b);
Mask operator!(const Mask& a);

// Reads the grammar of docs/masks.md. File names are relative to `folder`. Throws invalid_argument with a caret under
// the place, bad_file for an array that cannot be read.
Mask parse(std::string_view text, const std::filesystem::path& folder = ".");

struct Segment {
  std::int64_t query_begin, query_end, key_begin, key_end;  // half-open
  bool causal = false;  // the last query sees the last key, the one before it one less, and so on
};

Mask all();
Mask none();
Mask causal();  // j <= p, as docs/masks.md says of every term; numbers out of range throw invalid_argument
Mask window(std::int64_t both);
Mask window(std::int64_t left, std::int64_t right);       // -left <= j - p <= right
Mask dilated(std::int64_t steps, std::int64_t dilation);  // |p - j| <= steps * dilation, which dilation divides
Mask strided(std::int64_t stride);                        // stride divides p - j
Mask global_tokens(std::int64_t first);                   // p or j is below `first`
Mask global_tokens(std::vector<std::int64_t> positions);  // p or j is one of them
Mask sink(std::int64_t keys);                             // j < keys
Mask prefix(std::int64_t keys);                           // j < keys or j <= p
Mask documents(std::vector<std::int64_t> starts);         // p and j lie in one document; the starts ascend from 0
Mask document_ids(const TensorView& ids);      // i32 [M] or [B, M]: equal ids, a negative one is padding; copied
Mask segments(std::vector<Segment> segments);  // p and j lie in the ranges of one segment
Mask blocks(std::int64_t size, const TensorView& table);  // bool [R, R] or [H, R, R], R = ceil(M / size); copied
Mask random_blocks(std::int64_t size, std::int64_t count, std::uint64_t seed);  // `count` for each row of blocks
Mask tree(std::vector<std::int64_t> parents);  // j is p or an ancestor of p; the parent of a root is -1
Mask bits(const TensorView& allowed);          // bool [N, M], [H, N, M] or [B, H, N, M]; copied
Mask natten(std::int64_t height, std::int64_t width, std::int64_t kernel_height, std::int64_t kernel_width);
Mask longformer(std::int64_t window, std::int64_t global);  // window(window) | global_tokens(global)
Mask bigbird(std::int64_t block, std::int64_t window, std::int64_t global, std::int64_t random, std::uint64_t seed);

// Inclusive ranges of head or batch indices, each with its mask; `otherwise` takes the rest, if given.
struct Selection {
  std::int64_t first, last;
  Mask mask;
};
Mask heads(std::vector<Selection> selections);
Mask heads(std::vector<Selection> selections, Mask otherwise);
Mask batch(std::vector<Selection> selections);
Mask batch(std::vector<Selection> selections, Mask otherwise);

// where(): the expression as text, or as a lambda over symbolic indices; see stof/where.h for the lambda form.
Mask where(std::string_view expression);

}  // namespace stof
