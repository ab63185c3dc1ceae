// SPDX-License-Identifier: Apache-2.0
#include "cli/attention_inputs.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/tensor/half.h"
#include "src/tensor/npy.h"

namespace stof::cli {
namespace {

std::int64_t integer(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype() == DType::i64 ? tensor.as<std::int64_t>()[i] : tensor.as<std::int32_t>()[i];
}

float number(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype() == DType::f16 ? float_of_f16(tensor.as<std::uint16_t>()[i]) : tensor.as<float>()[i];
}

bool overflows(float x, DType dtype) {
  const float rounded = dtype == DType::f16 ? float_of_f16(f16_of_float(x)) : float_of_bf16(bf16_of_float(x));
  return std::isfinite(x) && !std::isfinite(rounded);
}

struct Found {
  float number;
  std::string place;  // in the file
};

// The first number inside the lengths of which `is` says so.
template <class Is>
std::optional<Found> find_number(const AttentionInput& input, const std::vector<std::int32_t>& lengths,
                                 TensorLayout layout, const Is& is) {
  const TensorView& view = input.view;
  for (std::int64_t b = 0; b < view.dim(0); ++b) {
    const std::int64_t rows = lengths.empty() ? view.dim(2) : lengths[static_cast<std::size_t>(b)];
    for (std::int64_t h = 0; h < view.dim(1); ++h)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t c = 0; c < view.dim(3); ++c) {
          const float x = number(input.tensor, b * view.strides[0] + h * view.strides[1] + row * view.strides[2] + c);
          if (!is(x)) continue;
          const bool heads_first = layout == TensorLayout::bhsd;
          return Found{x, fmt::format("[{}, {}, {}, {}]", b, heads_first ? h : row, heads_first ? row : h, c)};
        }
  }
  return std::nullopt;
}

void check_length(const std::string& file, std::int64_t item, std::int64_t length, std::int64_t limit) {
  if (length < 0 || length > limit)
    fail(ErrorKind::invalid_argument, "'{}': the length of item {} is {}; accepted: 0..{}", file, item, length, limit);
}

}  // namespace

TensorLayout parse_layout(const std::string& text) {
  if (text == "bhsd") return TensorLayout::bhsd;
  if (text == "bshd") return TensorLayout::bshd;
  fail(ErrorKind::invalid_argument, "unknown layout '{}'; accepted: bhsd, bshd", text);
}

TensorView heads_first(const Tensor& tensor, TensorLayout layout) {
  TensorView view = tensor.view();
  if (layout == TensorLayout::bshd) {
    std::swap(view.shape[1], view.shape[2]);
    std::swap(view.strides[1], view.strides[2]);
  }
  return view;
}

AttentionInput read_input(const std::string& file, TensorLayout layout) {
  AttentionInput input{.file = file, .tensor = read_npy(file), .view = {}};
  const DType dtype = input.tensor.dtype();
  if (dtype != DType::f32 && dtype != DType::f16)
    fail(ErrorKind::bad_file, "'{}' holds {}; accepted: f4, f2", file, name_of(dtype));
  if (input.tensor.shape().size() != 4)
    fail(ErrorKind::bad_file, "'{}' has shape {}; accepted: {}", file, to_string(input.tensor.shape()),
         layout == TensorLayout::bhsd ? "[batch, heads, sequence, head_dim]" : "[batch, sequence, heads, head_dim]");
  input.view = heads_first(input.tensor, layout);
  return input;
}

InputLengths read_lengths(const std::string& file, const AttentionInput& q, const AttentionInput& k) {
  const Tensor lengths = read_npy(file);
  const std::int64_t batch = q.view.dim(0);
  if (lengths.dtype() != DType::i32 && lengths.dtype() != DType::i64)
    fail(ErrorKind::bad_file, "'{}' holds {}; accepted: i4, i8", file, name_of(lengths.dtype()));
  const bool both = lengths.shape() == Shape{batch};
  if (!both && lengths.shape() != Shape{batch, 2})
    fail(ErrorKind::bad_file, "'{}' has shape {}; accepted: [{}] or [{}, 2]", file, to_string(lengths.shape()), batch,
         batch);
  InputLengths result;
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t of_q = integer(lengths, both ? i : 2 * i), of_kv = both ? of_q : integer(lengths, 2 * i + 1);
    check_length(file, i, of_q, q.view.dim(2));
    check_length(file, i, of_kv, k.view.dim(2));
    result.q.push_back(static_cast<std::int32_t>(of_q));
    result.kv.push_back(static_cast<std::int32_t>(of_kv));
  }
  return result;
}

void refuse_not_finite(const AttentionInput& input, const std::vector<std::int32_t>& lengths, TensorLayout layout) {
  if (const auto found = find_number(input, lengths, layout, [](float x) { return !std::isfinite(x); }))
    fail(ErrorKind::invalid_argument, "'{}' holds {} at {}; --allow-nan computes with it", input.file,
         std::isnan(found->number) ? "NaN"
         : found->number > 0       ? "inf"
                                   : "-inf",
         found->place);
}

void refuse_overflow(const AttentionInput& input, const std::vector<std::int32_t>& lengths, TensorLayout layout,
                     DType dtype) {
  if (dtype == DType::f32 || input.tensor.dtype() != DType::f32) return;
  if (const auto found = find_number(input, lengths, layout, [&](float x) { return overflows(x, dtype); }))
    fail(ErrorKind::invalid_argument, "'{}' holds {} at {}, infinite in {}; --allow-nan computes with it", input.file,
         found->number, found->place, name_of(dtype));
}

}  // namespace stof::cli
