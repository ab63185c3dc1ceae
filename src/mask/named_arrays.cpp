// SPDX-License-Identifier: Apache-2.0
// The named functions of mask.h whose arguments are arrays.
#include "src/mask/named_arrays.h"

#include <map>
#include <span>

#include "src/mask/argument.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

void check_dtype(std::string_view term, const TensorView& array, DType accepted) {
  if (array.dtype != accepted)
    fail(ErrorKind::invalid_argument, "{}: the array is {}; accepted: {}", term, name_of(array.dtype),
         name_of(accepted));
}

void check_rank(std::string_view term, const TensorView& array, Limits ranks, std::string_view shapes) {
  const auto rank = static_cast<std::int64_t>(array.rank());
  if (rank < ranks.least || rank > ranks.most)
    fail(ErrorKind::invalid_argument, "{}: the array is {}; accepted: {}", term, to_string(array.shape), shapes);
}

}  // namespace

Mask bits(const TensorView& allowed, const std::string& file) {
  check_dtype("bits", allowed, DType::boolean);
  check_rank("bits", allowed, {2, 4}, "[N, M], [H, N, M] or [B, H, N, M]");
  return make_mask(term::Bits{pack_bits(allowed, file)});
}

Mask blocks(std::int64_t size, const TensorView& table, const std::string& file) {
  check_argument({0}, "blocks: block size", size, {1, kMaxExtent});
  check_dtype("blocks", table, DType::boolean);
  check_rank("blocks", table, {2, 3}, "[R, C] or [H, R, C]");
  if (table.shape[table.rank() - 2] != table.shape.back())
    fail(ErrorKind::invalid_argument, "blocks: the array is {}; accepted: as many rows as columns",
         to_string(table.shape));
  return make_mask(term::Blocks{size, pack_bits(table, file)});
}

Mask document_ids(const TensorView& ids, const std::string& file) {
  check_dtype("document_ids", ids, DType::i32);
  check_rank("document_ids", ids, {1, 2}, "[M] or [B, M]");
  auto array = std::make_shared<term::DocumentIds::Array>();
  array->shape = ids.shape;
  const std::int64_t items = ids.rank() == 2 ? ids.shape[0] : 1, length = ids.shape.back();
  array->ids.reserve(static_cast<std::size_t>(items * length));
  std::map<Fingerprint, std::int64_t> seen;
  std::string text = to_string(ids.shape);
  for (std::int64_t item = 0; item < items; ++item) {
    const std::int32_t* row = ids.as<const std::int32_t>() + (ids.rank() == 2 ? item * ids.strides[0] : 0);
    const std::size_t begin = array->ids.size();
    for (std::int64_t j = 0; j < length; ++j) array->ids.push_back(row[j * ids.strides.back()]);
    const Fingerprint content = fingerprint_of(std::as_bytes(std::span(array->ids).subspan(begin)));
    array->item_of.push_back(seen.emplace(content, item).first->second);
    text += content.hex();
  }
  array->source = {.content = fingerprint_of(text), .file = file};
  return make_mask(term::DocumentIds{std::move(array)});
}

Mask bits(const TensorView& allowed) { return bits(allowed, ""); }

Mask blocks(std::int64_t size, const TensorView& table) { return blocks(size, table, ""); }

Mask document_ids(const TensorView& ids) { return document_ids(ids, ""); }

}  // namespace stof
