// SPDX-License-Identifier: Apache-2.0
#include "src/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/tensor/half.h"

namespace stof {
namespace {

double element(const void* base, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f16: return float_of_f16(static_cast<const std::uint16_t*>(base)[index]);
    case DType::bf16: return float_of_bf16(static_cast<const std::uint16_t*>(base)[index]);
    default: return static_cast<const float*>(base)[index];
  }
}

bool tree_allows(const DraftTrees& trees, const AttentionItem& item, std::int64_t row, std::int64_t key) {
  const std::int64_t of_query = key - (item.keys - item.queries);
  if (item.queries > trees.queries || of_query < 0) return true;
  const std::int32_t* const words = trees.words + item.place * trees.item_stride + row * trees.row_stride;
  return ((static_cast<std::uint32_t>(words[of_query / 32]) >> (of_query % 32)) & 1u) != 0;
}

double bias_of(const AttentionCall& call, const AttentionItem& item, std::int64_t head, std::int64_t row,
               std::int64_t key) {
  constexpr double kLn2 = 0.6931471805599453;
  const ScoreBias& bias = call.bias;
  if (bias.values == nullptr) return 0;
  const std::int64_t back = row + item.keys - item.queries - key;
  return kLn2 * double{bias.zero_of(head)[std::clamp(back, -bias.reach, bias.reach)]};
}

}  // namespace

ReferenceRow reference_attention(const BoundMask& mask, const AttentionCall& call, const AttentionItem& item,
                                 std::int64_t head, std::int64_t row) {
  const std::int64_t kv_head = head / (call.heads / call.kv_heads);
  const int group = mask.group_of(item.index, head);
  const std::int64_t q = item.q + head * call.q_strides.head + row * call.q_strides.row;
  std::vector<std::int64_t> keys;
  std::vector<double> scores;
  for (std::int64_t key = 0; key < item.keys; ++key) {
    if (!mask.allows(group, row, key) || !tree_allows(call.trees, item, row, key)) continue;
    const std::int64_t k = item.k + kv_head * call.k_strides.head + key * call.k_strides.row;
    double dot = 0;
    for (std::int64_t c = 0; c < call.head_dim; ++c)
      dot += element(call.q, call.dtype, q + c) * element(call.k, call.dtype, k + c);
    keys.push_back(key);
    const double score = dot * double{call.scale}, cap = call.softcap;
    scores.push_back((cap > 0 ? cap * std::tanh(score / cap) : score) + bias_of(call, item, head, row, key));
  }
  ReferenceRow result{.out = std::vector<double>(static_cast<std::size_t>(call.head_dim)),
                      .lse = -std::numeric_limits<double>::infinity()};
  if (keys.empty()) return result;
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double weight = std::exp(scores[i] - top);
    const std::int64_t v = item.v + kv_head * call.v_strides.head + keys[i] * call.v_strides.row;
    sum += weight;
    squares += weight * weight;
    for (std::size_t c = 0; c < result.out.size(); ++c)
      result.out[c] += weight * element(call.v, call.dtype, v + static_cast<std::int64_t>(c));
  }
  for (double& value : result.out) value /= sum;
  result.lse = top + std::log(sum);
  result.squared_weights = squares / (sum * sum);
  return result;
}

}  // namespace stof
