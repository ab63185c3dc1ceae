// SPDX-License-Identifier: Apache-2.0
// Attention problems with everything that may vary: mask, shape, dtype, strides, lengths, padded or packed. Memory that
// belongs to no item is NaN.
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "src/backend/contract.h"
#include "stof/attention.h"

namespace stof {

enum class BatchForm : std::uint8_t { heads_first, rows_first, packed };  // bhsd, bshd, [total, heads, head_dim]

// Of the first element of a tensor in its memory, whose beginning is aligned.
struct FirstElements {
  std::int64_t q = 0, k = 0, v = 0, out = 0;
};

// AttentionArguments::tree of a problem: a row of so many words for each query of each tree.
struct ProblemTrees {
  std::int64_t items = 0, queries = 0, row_words = 0;  // items: 1 for a tree of all, or as many as the batch
  std::vector<std::int32_t> words = {};                // none: calls bring no trees

  TensorView view() const;
};

struct ProblemShape {
  AttentionShape shape;
  BatchForm form = BatchForm::heads_first;
  std::int64_t row_padding = 0;                     // elements between rows
  std::int64_t item_padding = 0;                    // and between padded items
  bool values_apart = false;                        // v: heads before rows where k has rows first, and more padding
  std::vector<std::int32_t> q_lengths, kv_lengths;  // [batch], or empty for full lengths
  std::int64_t page_size = 0;                       // of what arguments() gives keys and values in; 0: rows
  bool lengths_on_device = false;                   // of keys, as arguments() gives them
  bool lists_on_device = false;                     // lengths or offsets of queries and keys
  float softcap = 0.f;                              // 0: none
  std::int64_t bias_reach = -1;                     // of a relative bias; below 0: none
  std::optional<float> scale = {};                  // none: as the library has it
  bool without_lse = false;                         // its memory then stays as it was
  FirstElements first = {};
  ProblemTrees trees = {};
};

class Problem {
 public:
  Problem(const ProblemShape& what, unsigned seed);

  // Valid while this lives.
  AttentionArguments arguments() const;
  AttentionCall call() const;  // with items() and keys in rows, as the reference takes it
  const std::vector<AttentionItem>& items() const { return items_; }
  const ProblemShape& what() const { return what_; }

  // Elements of a row of q, k, v or out, by head.
  float get(const TensorView& tensor, std::int64_t offset, std::int64_t head, std::int64_t row, std::int64_t c) const;
  void set(const TensorView& tensor, std::int64_t offset, std::int64_t head, std::int64_t row, std::int64_t c,
           float value) const;
  float lse(const AttentionItem& item, std::int64_t head, std::int64_t row) const;
  // Of the last run with lists on the device.
  const LengthsStatus& status() const { return status_; }
  // Fills out and lse with the pattern that untouched memory keeps.
  void poison_outputs() const;
  // Rows of out and of the logarithms that belong to no item still hold the pattern.
  bool padding_is_untouched() const;

  TensorView q, k, v, out, lse_view;

 private:
  void make_bias(std::mt19937& random);
  TensorView memory_from(std::int64_t first, std::int64_t count);
  // Of a tensor's memory: for so many heads, rows of an item, and rows of all items of a packed batch.
  struct Extent {
    std::int64_t first, heads, rows, total;
  };
  TensorView allocate(const Extent& extent, bool apart = false);
  void place_items();
  void place_pages(std::mt19937& random);
  TensorView pool_of(const TensorView& tensor, bool keys);
  bool is_untouched(std::size_t memory, const std::vector<bool>& owned) const;
  void fill(const TensorView& tensor, std::int64_t heads, bool queries, std::mt19937& random) const;

  ProblemShape what_;
  static constexpr std::size_t kOut = 3, kLse = 4;  // of memory_, in which q, k and v come first
  std::vector<Tensor> memory_;
  std::vector<std::int32_t> cu_q_, cu_kv_;
  mutable LengthsStatus status_{.wrong_items = -1};
  std::int64_t pages_ = 0, pages_of_item_ = 0;
  std::vector<std::int32_t> page_table_;
  std::optional<RelativeBias> bias_;  // of the host
  TensorView k_pool_, v_pool_;
  std::vector<AttentionItem> items_;
};

}  // namespace stof
