// SPDX-License-Identifier: Apache-2.0
// Calls whose items lie where the device reads them: the same as with offsets, by every kernel of every device.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/attention/host_tensors.h"
#include "tests/attention/devices.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

// Texts in another order than their places, one without rows, memory between and after them.
struct Texts {
  std::vector<std::int32_t> starts{150, 0, 17, 400, 500}, lengths{200, 17, 1, 64, 0};
  static constexpr std::int64_t kRows = 600;
  AttentionShape shape(DType dtype, std::int64_t head_dim) const {
    return {.batch = 6, .heads = 3, .kv_heads = 3, .queries = 256, .keys = 256, .head_dim = head_dim, .dtype = dtype};
  }
  AttentionRows rows() const { return {std::ssize(starts), starts.data(), lengths.data()}; }
};

struct Case {
  std::string device;
  DType dtype;
  std::int64_t head_dim;
};
class RowsCall : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Devices, RowsCall,
                         testing::Values(Case{"cpu", DType::f32, 24}, Case{"cpu", DType::bf16, 32},
                                         Case{"cuda", DType::f32, 32}, Case{"cuda", DType::f16, 32},
                                         Case{"cuda", DType::f16, 64}, Case{"cuda", DType::bf16, 64}),
                         [](const auto& the) {
                           return the.param.device + "_" + std::string(name_of(the.param.dtype)) + "_d" +
                                  std::to_string(the.param.head_dim);
                         });

// One item of the batch as a call of its own, in the same memory.
AttentionArguments alone(const AttentionArguments& all, std::int32_t start, std::int32_t length) {
  AttentionArguments one = all;
  one.rows.reset();
  for (TensorView* view : {&one.q, &one.k, &one.v, &one.out}) {
    view->data =
        static_cast<std::byte*>(view->data) + static_cast<std::size_t>(start * view->strides[0]) * size_of(view->dtype);
    view->shape = {1, view->dim(1), length, view->dim(2)};
    view->strides = {0, view->strides[1], view->strides[0], 1};
  }
  return one;
}

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const TensorView& packed) {
  const auto* begin = static_cast<const std::byte*>(packed.data);
  return {begin, begin + static_cast<std::size_t>(element_count(packed.shape)) * size_of(packed.dtype)};
}

// `got` holds every row of an item as `want` does, within rounding, and the pattern elsewhere.
void expect_rows(const Problem& memory, const Texts& texts, Bytes got, const TensorView& want) {
  memory.poison_outputs();
  const Bytes pattern = bytes_of(memory.out);
  const std::int64_t heads = want.dim(1), head_dim = want.dim(2);
  const std::size_t row_bytes = got.size() / Texts::kRows;
  std::vector<bool> owned(Texts::kRows, false);
  for (std::size_t i = 0; i < texts.starts.size(); ++i)
    std::fill_n(owned.begin() + texts.starts[i], texts.lengths[i], true);
  const TensorView view = view_of(got.data(), want.dtype, want.shape);
  const double bound = want.dtype == DType::f32 ? 1e-5 : 1e-2;
  for (std::int64_t row = 0; row < Texts::kRows; ++row) {
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * row_bytes);
    if (!owned[static_cast<std::size_t>(row)]) {
      const auto end = at + static_cast<std::ptrdiff_t>(row_bytes);
      ASSERT_TRUE(std::equal(got.begin() + at, got.begin() + end, pattern.begin() + at)) << "row " << row;
      continue;
    }
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t c = 0; c < head_dim; ++c)
        ASSERT_NEAR(memory.get(view, 0, head, row, c), memory.get(want, 0, head, row, c), bound) << "row " << row;
  }
}

std::optional<Attention> attention_by(std::string_view kernel, const Mask& mask, const AttentionShape& shape,
                                      const Device& device) {
  try {
    return Attention(mask, shape, device, {std::string(kernel)});
  } catch (const Error& refused) {
    EXPECT_EQ(refused.kind(), ErrorKind::unsupported) << refused.what();
    return std::nullopt;
  }
}

TEST_P(RowsCall, EqualsEveryItemAlone) {
  STOF_SKIP_WITHOUT(GetParam().device);
  const Device device = open_device(GetParam().device);
  const Texts texts;
  const AttentionShape shape = texts.shape(GetParam().dtype, GetParam().head_dim);
  AttentionShape extent = shape;
  extent.batch = 1;
  extent.queries = extent.keys = Texts::kRows;
  const Problem memory({.shape = extent, .form = BatchForm::packed, .q_lengths = {}, .kv_lengths = {}}, 3);
  AttentionArguments arguments = memory.arguments();
  arguments.cu_q = arguments.cu_kv = {};
  arguments.lse.reset();
  int ran = 0;
  for (const Mask& mask : {all(), causal(), window(9), longformer(20, 3)})
    for (const AttentionKernel& kernel : device.backend->attention) {
      const std::optional<Attention> attention = attention_by(kernel.name, mask, shape, device);
      if (!attention) continue;
      ++ran;
      SCOPED_TRACE(mask.text() + " " + std::string(kernel.name));
      memory.poison_outputs();
      arguments.rows = texts.rows();
      run_host_tensors(*attention, arguments, device);
      const Bytes got = bytes_of(arguments.out);
      for (std::size_t i = 0; i < texts.starts.size(); ++i)
        if (texts.lengths[i] > 0)
          run_host_tensors(*attention, alone(arguments, texts.starts[i], texts.lengths[i]), device);
      Bytes want = bytes_of(arguments.out);
      expect_rows(memory, texts, got, view_of(want.data(), shape.dtype, arguments.out.shape));
    }
  // Of each mask: decode_attention has few queries, and only row_attention fp32.
  const bool only_rows = GetParam().device == "cuda" && shape.dtype == DType::f32;
  EXPECT_EQ(ran, 4 * (only_rows ? 1 : GetParam().device == "cuda" && is_written_for(device, "band_attention") ? 5 : 2));
}

TEST(RowsCall, SaysWhatItDoesNotTake) {
  const Texts texts;
  const AttentionShape shape = texts.shape(DType::f32, 8);
  const Device device = open_device("cpu");
  const Tensor memory(DType::f32, {Texts::kRows, 3, 8});
  AttentionArguments a{.q = memory.view(), .k = memory.view(), .v = memory.view(), .out = memory.view()};
  a.rows = texts.rows();
  EXPECT_ERROR(Attention(bigbird(16, 3, 2, 2, 1), shape, device).run(a), ErrorKind::invalid_argument,
               "attention: rows with a mask that depends on length; accepted: cu_q and cu_kv");
  EXPECT_ERROR(Attention(parse("batch(0: causal, *: all)"), shape, device).run(a), ErrorKind::invalid_argument,
               "attention: rows with a mask that depends on the batch index; accepted: cu_q and cu_kv");
  AttentionShape small = shape;
  small.batch = 4;
  EXPECT_ERROR(Attention(all(), small, device).run(a), ErrorKind::invalid_argument,
               "attention: 5 items; accepted with rows: 0..4, as planned");
  small = shape;
  small.queries = 64;
  EXPECT_ERROR(Attention(all(), small, device).run(a), ErrorKind::invalid_argument,
               "attention: rows for a plan of 64 queries and 256 keys; accepted: as many of both");
  small.keys = 64;
  EXPECT_ERROR(Attention(all(), small, device).run(a), ErrorKind::invalid_argument,
               "attention: the length of rows of item 0 is 200; accepted: 0..64");
  const Attention attention(all(), shape, device);
  const Tensor lse(DType::f32, {Texts::kRows, 3});
  a.lse = lse.view();
  EXPECT_ERROR(attention.run(a), ErrorKind::invalid_argument,
               "attention: lse with rows; accepted: cu_q and cu_kv with an lse");
  a.lse.reset();
  a.cu_q = texts.starts;
  EXPECT_ERROR(attention.run(a), ErrorKind::invalid_argument,
               "attention: both rows and lengths or offsets; give one of them");
  a.cu_q = {};
  const std::vector<std::int32_t> past{560, 0, 17, 400, 500};
  a.rows->starts = nullptr;
  EXPECT_ERROR(attention.run(a), ErrorKind::invalid_argument,
               "attention: starts of rows is null; accepted: the address of 5 numbers");
  a.rows->starts = past.data(), a.rows->lengths = nullptr;
  EXPECT_ERROR(attention.run(a), ErrorKind::invalid_argument,
               "attention: lengths of rows is null; accepted: the address of 5 numbers");
  a.rows->lengths = texts.lengths.data();
  EXPECT_ERROR(attention.run(a), ErrorKind::invalid_argument, "attention: item 0 has rows 560..760; q has 600");
}

}  // namespace
}  // namespace stof
