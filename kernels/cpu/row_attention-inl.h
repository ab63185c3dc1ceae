// SPDX-License-Identifier: Apache-2.0
// One query row of row-wise attention, for one instruction set.
#if defined(STOF_KERNELS_CPU_ROW_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_ROW_ATTENTION_INL_H_
#undef STOF_KERNELS_CPU_ROW_ATTENTION_INL_H_
#else
#define STOF_KERNELS_CPU_ROW_ATTENTION_INL_H_
#endif
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

template <class T>
class QueryRow {
  using Floats = hn::ScalableTag<float>;
  using FloatVec = hn::Vec<Floats>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
  static constexpr int kChunk = 128;     // keys between two looks at the maximum
  static constexpr int kTogether = 4;    // keys, or vectors of the output, in registers at a time
  static constexpr int kMaxDepth = 256;  // a multiple of the lanes

 public:
  QueryRow(const AttentionNumbers& numbers, const AttentionHead& head, const RowTree& tree)
      : head_(head),
        tree_(tree),
        before_tree_(std::min(head.keys, tree.begin)),
        head_dim_(numbers.head_dim),
        depth_((numbers.head_dim + kLanes - 1) / kLanes * kLanes) {
    constexpr float kLog2E = 1.44269504088896341f;
    scale_ = numbers.scale * kLog2E;  // scores in units of log2
    cap_ = numbers.softcap * kLog2E;
  }

  void run(std::int64_t row, const KeyInterval* begin, const KeyInterval* end) {
    widen_row(static_cast<const T*>(head_.q) + row * head_.q_stride, head_dim_, q_, depth_);
    for (int c = 0; c < head_dim_; ++c) q_[c] *= scale_;
    std::fill_n(o_, depth_, 0.f);
    top_ = -std::numeric_limits<float>::infinity();
    sum_ = 0.f;
    position_ = head_.bias.before + row;
    for (const KeyInterval* interval = begin; interval != end; ++interval) {
      const int last = std::min(interval->end, before_tree_);
      for (int key = interval->begin; key < last; ++key) {
        keys_[count_++] = key;
        if (count_ == kChunk) attend_chunk();
      }
    }
    if (before_tree_ < head_.keys) add_keys_of_tree(row, begin, end);
    if (count_ > 0) attend_chunk();
    write(row);
  }

 private:
  // Apart from the keys in front of the tree, whose loop is the same without one.
  HWY_NOINLINE void add_keys_of_tree(std::int64_t row, const KeyInterval* begin, const KeyInterval* end) {
    const std::uint32_t* const words = tree_.words + row * tree_.row_stride;
    for (const KeyInterval* interval = begin; interval != end; ++interval) {
      const int last = std::min(interval->end, head_.keys);
      for (int key = std::max(interval->begin, tree_.begin); key < last; ++key) {
        const auto bit = static_cast<unsigned>(key - tree_.begin);
        if (((words[bit / 32] >> (bit % 32)) & 1u) == 0) continue;
        keys_[count_++] = key;
        if (count_ == kChunk) attend_chunk();
      }
    }
  }

  const T* key(int index) const { return static_cast<const T*>(head_.k) + keys_[index] * head_.k_stride; }
  const T* value(int index) const { return static_cast<const T*>(head_.v) + keys_[index] * head_.v_stride; }

  void attend_chunk() {
    const Floats d;
    // Vectors of scores: the lanes past the last key hold -inf.
    const int padded = (count_ + kLanes - 1) / kLanes * kLanes;
    for (int i = 0; i < count_; i += kTogether) score(i);
    if (cap_ > 0) cap_scores();
    if (head_.bias.zero != nullptr) add_bias();
    std::fill(s_ + count_, s_ + padded, -std::numeric_limits<float>::infinity());
    FloatVec peak = hn::Load(d, s_);
    for (int i = kLanes; i < padded; i += kLanes) peak = hn::Max(peak, hn::Load(d, s_ + i));
    raise_top(hn::GetLane(hn::MaxOfLanes(d, peak)));
    const FloatVec top = hn::Set(d, top_ == -std::numeric_limits<float>::infinity() ? 0.f : top_);
    FloatVec sum = hn::Zero(d);
    for (int i = 0; i < padded; i += kLanes) {
      const FloatVec weight = exp2(d, hn::Sub(hn::Load(d, s_ + i), top));
      sum = hn::Add(sum, weight);
      hn::Store(weight, d, s_ + i);
    }
    sum_ += hn::GetLane(hn::SumOfLanes(d, sum));
    add_values();
    count_ = 0;
  }

  // Whole vectors: what lies past the last score is not used.
  void cap_scores() {
    const Floats d;
    for (int i = 0; i < count_; i += kLanes)
      hn::Store(hn::Mul(hn::Set(d, cap_), hn::Tanh(d, hn::Mul(hn::Load(d, s_ + i), hn::Set(d, 1.f / cap_)))), d,
                s_ + i);
  }

  void add_bias() {
    const std::int64_t reach = head_.bias.reach;
    for (int i = 0; i < count_; ++i) s_[i] += head_.bias.zero[std::clamp(position_ - keys_[i], -reach, reach)];
  }

  void raise_top(float peak) {
    if (!(peak > top_)) return;
    const Floats d;
    const float factor = sum_ == 0.f ? 0.f : hn::GetLane(exp2(d, hn::Set(d, top_ - peak)));
    top_ = peak;
    sum_ *= factor;
    for (int c = 0; c < depth_; c += kLanes) hn::Store(hn::Mul(hn::Load(d, o_ + c), hn::Set(d, factor)), d, o_ + c);
  }

  // s_[i .. i + kTogether), of which those past count_ are not written.
  void score(int i) {
    const Floats d;
    const T* k[kTogether];
    for (int r = 0; r < kTogether; ++r) k[r] = key(std::min(i + r, count_ - 1));
    FloatVec sum[kTogether];
    HWY_UNROLL(4)
    for (int r = 0; r < kTogether; ++r) sum[r] = hn::Zero(d);
    int c = 0;
    for (; c + kLanes <= head_dim_; c += kLanes) {
      const FloatVec q = hn::Load(d, q_ + c);
      HWY_UNROLL(4)
      for (int r = 0; r < kTogether; ++r) sum[r] = hn::MulAdd(q, load_row(d, k[r] + c), sum[r]);
    }
    if (c < head_dim_)
      for (int r = 0; r < kTogether; ++r)
        sum[r] = hn::MulAdd(hn::Load(d, q_ + c), load_tail(d, k[r] + c, head_dim_ - c), sum[r]);
    const int live = std::min(kTogether, count_ - i);
    for (int r = 0; r < live; ++r) s_[i + r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
  }

  void add_values() {
    const Floats d;
    int c = 0;
    for (; c + kTogether * kLanes <= head_dim_; c += kTogether * kLanes) {
      FloatVec sum[kTogether];
      HWY_UNROLL(4)
      for (int v = 0; v < kTogether; ++v) sum[v] = hn::Load(d, o_ + c + v * kLanes);
      for (int i = 0; i < count_; ++i) {
        const FloatVec weight = hn::Set(d, s_[i]);
        const T* const from = value(i) + c;
        HWY_UNROLL(4)
        for (int v = 0; v < kTogether; ++v) sum[v] = hn::MulAdd(weight, load_row(d, from + v * kLanes), sum[v]);
      }
      HWY_UNROLL(4)
      for (int v = 0; v < kTogether; ++v) hn::Store(sum[v], d, o_ + c + v * kLanes);
    }
    for (; c < head_dim_; c += kLanes) {
      const int lanes = std::min(kLanes, head_dim_ - c);
      FloatVec sum = hn::Load(d, o_ + c);
      for (int i = 0; i < count_; ++i) {
        const FloatVec v = lanes == kLanes ? load_row(d, value(i) + c) : load_tail(d, value(i) + c, lanes);
        sum = hn::MulAdd(hn::Set(d, s_[i]), v, sum);
      }
      hn::Store(sum, d, o_ + c);
    }
  }

  void write(std::int64_t row) const {
    scale_row(o_, sum_ == 0.f ? 0.f : 1.f / sum_, head_dim_, static_cast<T*>(head_.out) + row * head_.out_stride);
    if (head_.lse != nullptr) head_.lse[row * head_.lse_stride] = natural_log_sum(top_, sum_);
  }

  AttentionHead head_;
  RowTree tree_;
  int before_tree_;       // keys that no tree takes
  int head_dim_, depth_;  // depth_: head_dim_ rounded up to whole vectors
  float scale_ = 1.f, cap_ = 0.f, top_ = 0.f, sum_ = 0.f;
  int count_ = 0;              // keys in the chunk
  std::int64_t position_ = 0;  // of the row
  std::int64_t keys_[kChunk];
  alignas(64) float s_[kChunk];  // scores, then weights
  alignas(64) float q_[kMaxDepth];
  alignas(64) float o_[kMaxDepth];
};

template <class T>
void attend_rows_of(const AttentionNumbers& numbers, const RowTask& task) {
  QueryRow<T> query(numbers, task.head, task.tree);
  for (int i = 0; i < task.rows; ++i)
    query.run(task.row + i, task.intervals + task.row_begin[i], task.intervals + task.row_begin[i + 1]);
}

inline void attend_rows(const AttentionNumbers& numbers, const RowTask& task) {
  switch (numbers.storage) {
    case Storage::f32: return attend_rows_of<float>(numbers, task);
    case Storage::f16: return attend_rows_of<hwy::float16_t>(numbers, task);
    case Storage::bf16: return attend_rows_of<hwy::bfloat16_t>(numbers, task);
  }
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
