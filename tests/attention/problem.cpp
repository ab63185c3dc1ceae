// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "src/attention/score_bias.h"
#include "src/tensor/half.h"

namespace stof {
namespace {

float load(const TensorView& tensor, std::int64_t i) {
  if (tensor.dtype == DType::f16) return float_of_f16(tensor.as<std::uint16_t>()[i]);
  if (tensor.dtype == DType::bf16) return float_of_bf16(tensor.as<std::uint16_t>()[i]);
  return tensor.as<float>()[i];
}

void store(const TensorView& tensor, std::int64_t i, float value) {
  if (tensor.dtype == DType::f16) tensor.as<std::uint16_t>()[i] = f16_of_float(value);
  else if (tensor.dtype == DType::bf16) tensor.as<std::uint16_t>()[i] = bf16_of_float(value);
  else tensor.as<float>()[i] = value;
}

// Of values whose strides are not those of the keys: a multiple of what the copy engine takes, for any storage.
constexpr std::int64_t kMorePadding = 16;

std::int64_t sum(const std::vector<std::int32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t head_stride(const TensorView& tensor) { return tensor.strides[1]; }
std::int64_t row_stride(const TensorView& tensor) { return tensor.strides[tensor.rank() == 3 ? 0 : 2]; }

}  // namespace

TensorView ProblemTrees::view() const {
  // Trees are not written; views do not say so.
  TensorView view = view_of(const_cast<std::int32_t*>(words.data()), DType::i32, {items, queries, (queries + 31) / 32});
  view.strides = {queries * row_words, row_words, 1};
  return view;
}

Problem::Problem(const ProblemShape& what, unsigned seed) : what_(what) {
  const AttentionShape& s = what_.shape;
  const auto batch = static_cast<std::size_t>(s.batch);
  if (what_.q_lengths.empty()) what_.q_lengths.assign(batch, static_cast<std::int32_t>(s.queries));
  if (what_.kv_lengths.empty()) what_.kv_lengths.assign(batch, static_cast<std::int32_t>(s.keys));
  const std::int64_t total_q = sum(what_.q_lengths), total_kv = sum(what_.kv_lengths);
  q = allocate({what.first.q, s.heads, s.queries, total_q});
  k = allocate({what.first.k, s.kv_heads, s.keys, total_kv});
  v = allocate({what.first.v, s.kv_heads, s.keys, total_kv}, what.values_apart);
  out = allocate({what.first.out, s.heads, s.queries, total_q});
  const bool packed = what_.form == BatchForm::packed;
  lse_view =
      memory_.emplace_back(DType::f32, packed ? Shape{total_q, s.heads} : Shape{s.batch, s.heads, s.queries}).view();
  poison_outputs();
  place_items();
  std::mt19937 random(seed);
  fill(q, s.heads, true, random);
  fill(k, s.kv_heads, false, random);
  fill(v, s.kv_heads, false, random);
  if (what_.page_size > 0) place_pages(random);
  if (what_.bias_reach >= 0) make_bias(random);
}

// As far from each other as scores are.
void Problem::make_bias(std::mt19937& random) {
  std::normal_distribution<float> normal(0, 1.5f);
  std::vector<float> values(static_cast<std::size_t>(what_.shape.heads * (2 * what_.bias_reach + 1)));
  for (float& value : values) value = normal(random);
  bias_.emplace(values, what_.shape.heads, what_.bias_reach, open_device("cpu"));
}

// Pages in any order; entries of the table past an item's keys are of no page, and some pages are of no item.
void Problem::place_pages(std::mt19937& random) {
  constexpr std::int64_t kSpare = 3;
  constexpr std::int32_t kNoPage = 0x7fffff00;
  const std::int64_t size = what_.page_size;
  pages_of_item_ = (what_.shape.keys + size - 1) / size;
  pages_ = what_.shape.batch * pages_of_item_ + kSpare;
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages_));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  page_table_.assign(static_cast<std::size_t>(what_.shape.batch * pages_of_item_), kNoPage);
  for (std::size_t item = 0; item < what_.kv_lengths.size(); ++item)
    for (std::int64_t page = 0; page * size < what_.kv_lengths[item]; ++page) {
      const std::size_t at = item * static_cast<std::size_t>(pages_of_item_) + static_cast<std::size_t>(page);
      page_table_[at] = order[at];
    }
  k_pool_ = pool_of(k, true);
  v_pool_ = pool_of(v, false);
}

TensorView Problem::pool_of(const TensorView& tensor, bool keys) {
  const bool apart = !keys && what_.values_apart;
  const std::int64_t heads = what_.shape.kv_heads, d = what_.shape.head_dim, size = what_.page_size;
  const std::int64_t wide = d + what_.row_padding + (apart ? kMorePadding : 0);
  TensorView pool = memory_from(keys ? what_.first.k : what_.first.v, pages_ * heads * size * wide);
  pool.shape = {pages_, heads, size, d};
  // Rows of a head side by side, or heads of a row.
  if ((what_.form == BatchForm::heads_first) != apart) pool.strides = {heads * size * wide, size * wide, wide, 1};
  else pool.strides = {heads * size * wide, wide, heads * wide, 1};
  for (const AttentionItem& item : items_)
    for (std::int64_t key = 0; key < item.keys; ++key) {
      const std::int64_t page = page_table_[static_cast<std::size_t>(item.index * pages_of_item_ + key / size)];
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t c = 0; c < d; ++c)
          store(pool, page * pool.strides[0] + head * pool.strides[1] + key % size * pool.strides[2] + c,
                get(tensor, keys ? item.k : item.v, head, key, c));
    }
  return pool;
}

// NaN, from some element of an allocation on.
TensorView Problem::memory_from(std::int64_t first, std::int64_t count) {
  const Tensor& memory = memory_.emplace_back(what_.shape.dtype, Shape{first + count});
  TensorView view = memory.view();
  for (std::int64_t i = 0; i < first + count; ++i) store(view, i, std::numeric_limits<float>::quiet_NaN());
  view.data = static_cast<std::byte*>(view.data) + static_cast<std::size_t>(first) * size_of(view.dtype);
  return view;
}

TensorView Problem::allocate(const Extent& extent, bool apart) {
  const auto& [first, heads, rows, total] = extent;
  const std::int64_t d = what_.shape.head_dim, batch = what_.shape.batch;
  const std::int64_t wide = d + what_.row_padding + (apart ? kMorePadding : 0);
  const bool packed = what_.form == BatchForm::packed;
  const std::int64_t item = rows * heads * wide + what_.item_padding;
  TensorView view = memory_from(first, packed ? total * heads * wide : batch * item);
  view.shape = packed ? Shape{total, heads, d} : Shape{batch, heads, rows, d};
  if (packed && apart) view.strides = {wide, total * wide, 1};
  else if (packed) view.strides = {heads * wide, wide, 1};
  else if ((what_.form == BatchForm::heads_first) != apart) view.strides = {item, rows * wide, wide, 1};
  else view.strides = {item, wide, heads * wide, 1};
  return view;
}

void Problem::place_items() {
  const bool packed = what_.form == BatchForm::packed;
  cu_q_ = cu_kv_ = {0};
  for (std::size_t i = 0; i < what_.q_lengths.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const std::int64_t q_at = packed ? cu_q_.back() : index, kv_at = packed ? cu_kv_.back() : index;
    items_.push_back({.index = index,
                      .place = index,
                      .queries = what_.q_lengths[i],
                      .keys = what_.kv_lengths[i],
                      .q = q_at * q.strides[0],
                      .k = kv_at * k.strides[0],
                      .v = kv_at * v.strides[0],
                      .out = q_at * out.strides[0],
                      .lse = q_at * lse_view.strides[0]});
    cu_q_.push_back(cu_q_.back() + what_.q_lengths[i]);
    cu_kv_.push_back(cu_kv_.back() + what_.kv_lengths[i]);
  }
}

void Problem::fill(const TensorView& tensor, std::int64_t heads, bool queries, std::mt19937& random) const {
  std::normal_distribution<float> normal;
  for (const AttentionItem& item : items_) {
    const std::int64_t offset = tensor.data == q.data ? item.q : tensor.data == k.data ? item.k : item.v;
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t row = 0; row < (queries ? item.queries : item.keys); ++row)
        for (std::int64_t c = 0; c < what_.shape.head_dim; ++c) set(tensor, offset, head, row, c, normal(random));
  }
}

AttentionArguments Problem::arguments() const {
  const bool packed = what_.form == BatchForm::packed, paged = what_.page_size > 0;
  const std::int64_t batch = what_.shape.batch;
  // Lists are not written; views do not say so.
  const auto view = [](const std::vector<std::int32_t>& list, Shape shape) {
    return view_of(const_cast<std::int32_t*>(list.data()), DType::i32, std::move(shape));
  };
  AttentionArguments arguments{.q = q, .k = paged ? k_pool_ : k, .v = paged ? v_pool_ : v, .out = out};
  if (!what_.without_lse) arguments.lse = lse_view;
  arguments.scale = what_.scale;
  if (what_.softcap > 0) arguments.softcap = what_.softcap;
  if (!what_.trees.words.empty()) arguments.tree = what_.trees.view();
  if (bias_) arguments.relative_bias = &*bias_;
  if (paged) arguments.page_table = view(page_table_, {batch, pages_of_item_});
  if (what_.lists_on_device) {
    DeviceLengths lists{.items = batch, .status = &status_};
    if (packed) lists.cu_q = cu_q_.data();
    else lists.q_lengths = what_.q_lengths.data();
    if (packed && !paged) lists.cu_kv = cu_kv_.data();
    else lists.kv_lengths = what_.kv_lengths.data();
    arguments.device_lengths = lists;
    return arguments;
  }
  if (packed) arguments.cu_q = cu_q_;
  else arguments.q_lengths = what_.q_lengths;
  if (packed && !paged) arguments.cu_kv = cu_kv_;
  else if (what_.lengths_on_device) arguments.device_kv_lengths = view(what_.kv_lengths, {batch});
  else arguments.kv_lengths = what_.kv_lengths;
  return arguments;
}

AttentionCall Problem::call() const {
  AttentionCall call;
  call.q = q.data;
  call.k = k.data;
  call.v = v.data;
  call.out = out.data;
  call.lse = what_.without_lse ? nullptr : lse_view.as<float>();
  call.q_strides = {head_stride(q), row_stride(q)};
  call.k_strides = {head_stride(k), row_stride(k)};
  call.v_strides = {head_stride(v), row_stride(v)};
  call.out_strides = {head_stride(out), row_stride(out)};
  call.lse_strides = {head_stride(lse_view), lse_view.strides[lse_view.rank() == 2 ? 0 : 2]};
  call.packed = what_.form == BatchForm::packed;
  call.heads = what_.shape.heads;
  call.kv_heads = what_.shape.kv_heads;
  call.head_dim = what_.shape.head_dim;
  call.dtype = what_.shape.dtype;
  call.scale = what_.scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(what_.shape.head_dim))));
  call.softcap = what_.softcap;
  if (const ProblemTrees& trees = what_.trees; !trees.words.empty())
    call.trees = {.words = trees.words.data(),
                  .item_stride = trees.items == 1 ? 0 : trees.queries * trees.row_words,
                  .row_stride = trees.row_words,
                  .queries = trees.queries};
  if (bias_) call.bias = score_bias(arguments(), what_.shape, bias_->device());
  call.items = items_;
  return call;
}

float Problem::get(const TensorView& tensor, std::int64_t offset, std::int64_t head, std::int64_t row,
                   std::int64_t c) const {
  return load(tensor, offset + head * head_stride(tensor) + row * row_stride(tensor) + c);
}

void Problem::set(const TensorView& tensor, std::int64_t offset, std::int64_t head, std::int64_t row, std::int64_t c,
                  float value) const {
  store(tensor, offset + head * head_stride(tensor) + row * row_stride(tensor) + c, value);
}

float Problem::lse(const AttentionItem& item, std::int64_t head, std::int64_t row) const {
  const AttentionStrides strides = call().lse_strides;
  return lse_view.as<float>()[item.lse + head * strides.head + row * strides.row];
}

void Problem::poison_outputs() const {
  for (const std::size_t output : {kOut, kLse})
    if (memory_[output].bytes() > 0) std::memset(memory_[output].data(), 0xFF, memory_[output].bytes());
}

bool Problem::padding_is_untouched() const {
  std::vector<bool> owned(static_cast<std::size_t>(memory_[kOut].size()));
  std::vector<bool> with_lse(static_cast<std::size_t>(memory_[kLse].size()));
  const AttentionStrides strides = call().lse_strides;
  for (const AttentionItem& item : items_)
    for (std::int64_t head = 0; head < what_.shape.heads; ++head)
      for (std::int64_t row = 0; row < item.queries; ++row) {
        with_lse[static_cast<std::size_t>(item.lse + head * strides.head + row * strides.row)] = !what_.without_lse;
        for (std::int64_t c = 0; c < what_.shape.head_dim; ++c)
          owned[static_cast<std::size_t>(what_.first.out + item.out + head * head_stride(out) + row * row_stride(out) +
                                         c)] = true;
      }
  return is_untouched(kOut, owned) && is_untouched(kLse, with_lse);
}

bool Problem::is_untouched(std::size_t memory, const std::vector<bool>& owned) const {
  const std::size_t size = size_of(memory_[memory].dtype());
  const auto* bytes = static_cast<const unsigned char*>(memory_[memory].data());
  for (std::size_t i = 0; i < owned.size(); ++i)
    for (std::size_t b = 0; !owned[i] && b < size; ++b)
      if (bytes[i * size + b] != 0xFF) return false;
  return true;
}

}  // namespace stof
