// SPDX-License-Identifier: Apache-2.0
// One row-block of block-wise attention, for one instruction set: pack the queries, visit the key blocks, write.
#if defined(STOF_KERNELS_CPU_BLOCK_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_BLOCK_ATTENTION_INL_H_
#undef STOF_KERNELS_CPU_BLOCK_ATTENTION_INL_H_
#else
#define STOF_KERNELS_CPU_BLOCK_ATTENTION_INL_H_
#endif
#include <cmath>
#include <type_traits>

#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

// 0 * x is 0 unless x is infinite or NaN, and a NaN stays: four sums, as one would wait for itself.
template <class Words>
HWY_INLINE bool all_finite(const Rows& rows, int count, int depth) {
  const Floats d;
  const FloatVec zero = hn::Zero(d);
  FloatVec sum[4] = {zero, zero, zero, zero};
  for (int j = 0; j < count; j += 4)
    for (int c = 0; c < depth; c += kLanes) {
      HWY_UNROLL(4)
      for (int r = 0; r < 4; ++r)
        sum[r] = Words::multiply_add(hn::LoadU(d, rows.words(std::min(j + r, count - 1)) + c), zero, sum[r]);
    }
  return hn::AllTrue(d, hn::Eq(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), zero));
}

// Word c of the result: element c of both rows, the first one low; 0 from `count` on to whole vectors.
HWY_INLINE void join_rows(const hwy::bfloat16_t* low, const hwy::bfloat16_t* high, int count, float* to) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto bits = [&](const hwy::bfloat16_t* from, int c) {  // widened: the number above 16 bits of 0
    return hn::BitCast(du, count - c >= kLanes ? load_row(d, from + c) : load_tail(d, from + c, count - c));
  };
  for (int c = 0; c < count; c += kLanes)
    hn::Store(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(bits(low, c)), bits(high, c))), d, to + c);
}

// to[c][0 .. 4) = from[0 .. 4)[c] of rows `stride` apart; rows of `to` are kPanel apart.
HWY_INLINE void transpose_four(const float* from, int stride, int count, float* to) {
  const hn::Full128<float> d;
  int c = 0;
  for (; c + 4 <= count; c += 4) {
    const auto a = hn::Load(d, from + c), b = hn::Load(d, from + stride + c);
    const auto e = hn::Load(d, from + 2 * stride + c), f = hn::Load(d, from + 3 * stride + c);
    const auto ab = hn::InterleaveLower(d, a, b), ef = hn::InterleaveLower(d, e, f);
    const auto ab_high = hn::InterleaveUpper(d, a, b), ef_high = hn::InterleaveUpper(d, e, f);
    hn::Store(hn::ConcatLowerLower(d, ef, ab), d, to + c * kPanel);
    hn::Store(hn::ConcatUpperUpper(d, ef, ab), d, to + (c + 1) * kPanel);
    hn::Store(hn::ConcatLowerLower(d, ef_high, ab_high), d, to + (c + 2) * kPanel);
    hn::Store(hn::ConcatUpperUpper(d, ef_high, ab_high), d, to + (c + 3) * kPanel);
  }
  for (; c < count; ++c)
    for (int r = 0; r < 4; ++r) to[c * kPanel + r] = from[r * stride + c];
}

// With words of pairs, T is bf16 and head_dim even: keys are read where they lie, values in pairs of keys.
template <class T, class Words>
class RowBlock {
  static constexpr bool kPairs = Words::kEach > 1;
  static constexpr int kTogether = 4;  // queries packed at a time, and rows of wide_

 public:
  RowBlock(const AttentionNumbers& numbers, const BlockTiles& tiles, const BlockTask& task, float* scratch)
      : numbers_(numbers), tiles_(tiles), task_(task), depth_((numbers.head_dim + kLanes - 1) / kLanes * kLanes) {
    const auto take = [&](std::int64_t floats) {
      float* const part = scratch;
      scratch += (floats + 15) / 16 * 16;
      return part;
    };
    const int rows = (tiles.block_q + kPanel - 1) / kPanel * kPanel;
    q_ = take(std::int64_t{rows} * numbers.head_dim);
    o_ = take(std::int64_t{rows} * depth_);
    s_ = take(std::int64_t{tiles.block_kv} * kPanel);
    top_ = take(rows);
    sum_ = take(rows);
    k_ = take(std::int64_t{tiles.block_kv} * depth_);
    v_ = take(std::int64_t{tiles.block_kv} * depth_);
    wide_ = take(std::int64_t{kTogether} * depth_);
    first_panel_ = task.lane / kPanel;
    last_panel_ = (task.lane + task.rows - 1) / kPanel;
  }

  void run() {
#if HWY_TARGET == HWY_AVX3
    if constexpr (Words::kTiles) {
      const MatrixRegisters registers;
      return attend_all();
    }
#endif
    attend_all();
  }

 private:
  void attend_all() {
    pack_queries();
    for (std::int64_t i = 0; has_visit(task_, i); ++i) visit(visit_at(task_, i), ahead_of(i));
    write();
  }

  static const BlockVisit& entry_at(const BlockTask& task, std::int64_t i) {
    return i < task.visit_count ? task.visits[i] : task.tree_visits[i - task.visit_count];
  }

  static bool has_visit(const BlockTask& task, std::int64_t i) {
    return i < task.visit_count + task.tree_visit_count && entry_at(task, i).key_start < task.head.keys;
  }

  struct Visit {
    int key_start;
    const std::uint8_t* mask;  // null: all keys are allowed
  };
  Visit visit_at(const BlockTask& task, std::int64_t i) const {
    const BlockVisit& entry = entry_at(task, i);
    if (entry.mask < 0) return {.key_start = entry.key_start, .mask = nullptr};
    const std::uint8_t* const masks = i < task.visit_count ? tiles_.masks : task.tree_masks;
    return {.key_start = entry.key_start,
            .mask = masks + std::int64_t{entry.mask} * tiles_.block_kv * tiles_.mask_row_bytes()};
  }

  void add_keys(Ahead& ahead, const AttentionHead& head, int key_start) const {
    const int keys = std::min(tiles_.block_kv, head.keys - key_start);
    ahead.add(rows_at(head.k, key_start, head.k_stride), keys);
    ahead.add(rows_at(head.v, key_start, head.v_stride), keys);
  }

  // During visit i: the keys of the next one, or what the end of this task and the beginning of the next will touch.
  Ahead ahead_of(std::int64_t i) const {
    Ahead ahead{.lines = static_cast<int>(sizeof(T)) * numbers_.head_dim / 64};
    if (!numbers_.far) return ahead;
    if (has_visit(task_, i + 1)) {
      add_keys(ahead, task_.head, entry_at(task_, i + 1).key_start);
      return ahead;
    }
    ahead.add(rows_at(task_.head.out, task_.row, task_.head.out_stride), task_.rows);
    if (const BlockTask* const next = task_.following; next != nullptr) {
      ahead.add(rows_at(next->head.q, next->row, next->head.q_stride), next->rows);
      if (has_visit(*next, 0)) add_keys(ahead, next->head, entry_at(*next, 0).key_start);
    }
    return ahead;
  }

  static const T* row_at(const void* base, std::int64_t row, std::int64_t stride) {
    return static_cast<const T*>(base) + row * stride;
  }

  // To units of log2.
  float scale() const { return numbers_.scale * 1.44269504088896341f; }

  // What rounds nothing is done to queries in pairs, the rest to their scores: a sign, and 0.
  float scale_of_queries() const { return kPairs ? static_cast<float>((scale() > 0) - (scale() < 0)) : scale(); }
  float scale_of_scores() const { return kPairs && scale() != 0 ? std::abs(scale()) : 1.f; }
  float cap() const { return numbers_.softcap * 1.44269504088896341f; }

  // q_ [panel][word of c][kPanel]; lanes outside the task are 0.
  void pack_queries() {
    const int words = numbers_.head_dim / Words::kEach;
    const int begin = first_panel_ * kPanel, end = (last_panel_ + 1) * kPanel;
    std::fill(o_ + std::int64_t{begin} * depth_, o_ + std::int64_t{end} * depth_, 0.f);
    std::fill(sum_ + begin, sum_ + end, 0.f);
    std::fill(top_ + begin, top_ + end, -std::numeric_limits<float>::infinity());
    for (int lane = begin; lane < end; lane += kTogether) {
      for (int r = 0; r < kTogether; ++r) prepare_query(lane + r, wide_ + std::int64_t{r} * depth_);
      transpose_four(wide_, depth_, words, q_ + std::int64_t{lane / kPanel} * kPanel * words + lane % kPanel);
    }
  }

  // The words of a query, times its factor.
  void prepare_query(int lane, float* to) const {
    if (lane < task_.lane || lane >= task_.lane + task_.rows) {
      std::fill_n(to, depth_, 0.f);
      return;
    }
    const Floats d;
    const FloatVec scale = hn::Set(d, scale_of_queries());
    widen_row(row_at(task_.head.q, task_.row + lane - task_.lane, task_.head.q_stride), numbers_.head_dim, to, depth_);
    for (int c = 0; c < depth_; c += kLanes) {
      hn::Store(hn::Mul(hn::Load(d, to + c), scale), d, to + c);
      if constexpr (kPairs) narrow_pairs(to + c, to + c / 2);
    }
  }

  // kLanes numbers that are bf16 already to as many halves.
  static void narrow_pairs(const float* from, float* to) {
    const Floats d;
    store_row(d, hn::Load(d, from), reinterpret_cast<hwy::bfloat16_t*>(to));
  }

  static Rows rows_at(const void* base, std::int64_t row, std::int64_t stride) {
    constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
    return {.at = static_cast<const std::byte*>(base) + row * stride * kElement, .stride = stride * kElement};
  }
  Rows rows_of(const float* at) const {
    return {.at = reinterpret_cast<const std::byte*>(at), .stride = std::int64_t{depth_} * 4};
  }

  Rows widened(const void* base, std::int64_t stride, int key_start, int keys, float* to) const {
    for (int j = 0; j < keys; ++j)
      widen_row(row_at(base, key_start + j, stride), numbers_.head_dim, to + std::int64_t{j} * depth_, depth_);
    return rows_of(to);
  }

  Rows key_rows(int key_start, int keys) const {
    const AttentionHead& head = task_.head;
    if constexpr (std::is_same_v<T, float> || kPairs) return rows_at(head.k, key_start, head.k_stride);
    else return widened(head.k, head.k_stride, key_start, keys, k_);
  }

  Rows value_rows(int key_start, int keys) const {
    const AttentionHead& head = task_.head;
    if constexpr (std::is_same_v<T, float>)
      if (numbers_.head_dim == depth_) return rows_at(head.v, key_start, head.v_stride);
    return packed_values(key_start, keys);
  }

  // A row for each word of keys, in v_; a key past the last one is 0.
  Rows packed_values(int key_start, int keys) const {
    const AttentionHead& head = task_.head;
    if constexpr (kPairs) {
      std::fill_n(wide_, depth_, 0.f);
      for (int j = 0; j < keys; j += 2) {
        const T* const low = row_at(head.v, key_start + j, head.v_stride);
        const T* const high = j + 1 < keys ? low + head.v_stride : reinterpret_cast<const T*>(wide_);
        join_rows(low, high, numbers_.head_dim, v_ + std::int64_t{j / 2} * depth_);
      }
      if constexpr (Words::kTiles) clear_words((keys + 1) / 2);
      return rows_of(v_);
    } else {
      return widened(head.v, head.v_stride, key_start, keys, v_);
    }
  }

  void visit(const Visit& entry, const Ahead& ahead) {
    const int keys = std::min(tiles_.block_kv, task_.head.keys - entry.key_start);
    Block block{.k = key_rows(entry.key_start, keys),
                .v = value_rows(entry.key_start, keys),
                .keys = keys,
                .head_dim = numbers_.head_dim,
                .depth = depth_,
                .ahead = ahead,
                .panels = last_panel_ - first_panel_ + 1,
                .unit = scale_of_scores(),
                .bias = task_.head.bias,
                .first_key = entry.key_start};
    if (numbers_.softcap > 0) block.cap = cap();
    if (block.changes_scores()) block.factor = block.cap > 0 ? block.unit / block.cap : block.unit, block.unit = 1.f;
    if (entry.mask == nullptr) {
      for (int panel = first_panel_; panel <= last_panel_; ++panel) attend<Words, false>(block, panel_at(panel));
      return;
    }
    block.mask_row_bytes = tiles_.mask_row_bytes();
    block.mask = entry.mask;
    if (!all_finite<Words>(block.v, (keys + Words::kEach - 1) / Words::kEach, depth_))
      return visit_not_finite(block, entry.key_start);
    for (int panel = first_panel_; panel <= last_panel_; ++panel) attend<Words, true>(block, panel_at(panel));
  }

  // A forbidden weight is 0, and 0 times a value that is not finite would be NaN: rows with such a value are taken out
  // of the product and added for those query rows alone that may see them.
  void visit_not_finite(Block block, int key_start) {
    const AttentionHead& head = task_.head;
    block.v = packed_values(key_start, block.keys);
    bool finite[kMaxBlockKv];
    for (int j = 0; j < block.keys; ++j) {
      widen_row(row_at(head.v, key_start + j, head.v_stride), numbers_.head_dim, wide_, depth_);
      finite[j] = all_finite<FloatWords>(rows_of(wide_), 1, depth_);
      if (!finite[j]) clear_values(j);
    }
    for (int index = first_panel_; index <= last_panel_; ++index) {
      const Panel panel = panel_at(index);
      attend<Words, true>(block, panel);
      for (int j = 0; j < block.keys; ++j) {
        if (finite[j]) continue;
        widen_row(row_at(head.v, key_start + j, head.v_stride), numbers_.head_dim, wide_, depth_);
        add_value_row(mask_word(block, panel, j), panel, j);
      }
    }
  }

  // What packed_values() leaves of the last tile of words.
  void clear_words(int words) const {
    for (; words % kTileWords != 0; ++words) std::fill_n(v_ + std::int64_t{words} * depth_, depth_, 0.f);
  }

  // Key j of what packed_values() wrote becomes 0.
  void clear_values(int j) const {
    float* const row = v_ + std::int64_t{j / Words::kEach} * depth_;
    for (int c = 0; c < depth_; ++c) {
      auto* const part = reinterpret_cast<std::byte*>(row + c) + static_cast<std::size_t>(j % Words::kEach) * sizeof(T);
      std::memset(part, 0, sizeof(float) / Words::kEach);
    }
  }

  // The values of key j, in wide_, times their weights.
  void add_value_row(std::uint32_t allowed, const Panel& panel, int j) const {
    for (int lane = 0; lane < kPanel; ++lane) {
      if (((allowed >> lane) & 1u) == 0) continue;
      const float* const word = panel.s + j / Words::kEach * kPanel + lane;
      std::uint32_t bits = 0;
      std::memcpy(&bits, word, sizeof(bits));
      if constexpr (kPairs) bits = j % 2 == 0 ? bits << 16 : bits & 0xFFFF0000u;
      float weight = 0.f;
      std::memcpy(&weight, &bits, sizeof(weight));
      float* const o = panel.o + std::int64_t{lane} * depth_;
      for (int c = 0; c < numbers_.head_dim; ++c) o[c] += weight * wide_[c];
    }
  }

  Panel panel_at(int index) const {
    const std::int64_t row = std::int64_t{index} * kPanel;
    return {.q = q_ + row * (numbers_.head_dim / Words::kEach),
            .o = o_ + row * depth_,
            .s = s_,
            .top = top_ + row,
            .sum = sum_ + row,
            .turned = k_,
            .mask_offset = static_cast<int>(row / 8),
            .index = index - first_panel_,
            .position = task_.head.bias.before + static_cast<int>(task_.row + row) - task_.lane};
  }

  void write() const {
    const AttentionHead& head = task_.head;
    for (int i = 0; i < task_.rows; ++i) {
      const int lane = task_.lane + i;
      const float sum = sum_[lane];
      const std::int64_t row = task_.row + i;
      scale_row(o_ + std::int64_t{lane} * depth_, sum == 0.f ? 0.f : 1.f / sum, numbers_.head_dim,
                static_cast<T*>(head.out) + row * head.out_stride);
      if (head.lse != nullptr) head.lse[row * head.lse_stride] = natural_log_sum(top_[lane], sum);
    }
  }

  AttentionNumbers numbers_;
  BlockTiles tiles_;
  BlockTask task_;
  int depth_;  // head_dim rounded up to whole vectors
  int first_panel_ = 0, last_panel_ = 0;
  float *q_, *o_, *s_, *top_, *sum_, *k_, *v_, *wide_;
};

inline void attend_row_block(const AttentionNumbers& numbers, const BlockTiles& tiles, const BlockTask& task,
                             float* scratch) {
  switch (numbers.storage) {
    case Storage::f32: return RowBlock<float, FloatWords>(numbers, tiles, task, scratch).run();
    case Storage::f16: return RowBlock<hwy::float16_t, FloatWords>(numbers, tiles, task, scratch).run();
    case Storage::bf16:
#if HWY_TARGET == HWY_AVX3
      if (numbers.bf16_tiles && numbers.head_dim % kTileNumbers == 0 && tiles.block_kv >= kTileRows)
        return RowBlock<hwy::bfloat16_t, TileWords>(numbers, tiles, task, scratch).run();
      if (numbers.bf16_pairs && numbers.head_dim % 2 == 0)
        return RowBlock<hwy::bfloat16_t, PairWords>(numbers, tiles, task, scratch).run();
#endif
      return RowBlock<hwy::bfloat16_t, FloatWords>(numbers, tiles, task, scratch).run();
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
