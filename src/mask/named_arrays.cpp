// SPDX-License-Identifier: Apache-2.0
// The named functions of mask.h whose arguments are arrays.
#include "src/mask/named_arrays.h"

#include <algorithm>
#include <map>
#include <span>

#include "src/base/memory.h"
#include "src/mask/argument.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

// What a term accepts in its argument `place`.
struct Accepted {
  ArgumentPlace place;
  std::string_view term;
  DType dtype;
  std::size_t least_rank, most_rank;
  std::string_view shapes;
  std::size_t sides;  // of one mask: the last dimensions
};

// An array without elements takes no room of its own, and may claim any size.
void check_sizes(const TensorView& array, const Accepted& accepted) {
  constexpr std::int64_t kMostSide = std::int64_t{1} << 30, kMostSlices = std::int64_t{1} << 24;
  std::int64_t slices = 1;
  for (std::size_t d = 0; d < array.rank(); ++d) {
    const bool side = d + accepted.sides >= array.rank();
    if (array.shape[d] > (side ? kMostSide : kMostSlices / slices))
      fail_argument(accepted.place, "{}: the array is {}; accepted: at most {} {} of at most {} a side", accepted.term,
                    to_string(array.shape), kMostSlices, accepted.sides == 1 ? "rows" : "tables", kMostSide);
    if (!side) slices *= std::max<std::int64_t>(1, array.shape[d]);
  }
}

void check_array(const TensorView& array, const Accepted& accepted) {
  if (array.dtype != accepted.dtype)
    fail_argument(accepted.place, "{}: the array is {}; accepted: {}", accepted.term, name_of(array.dtype),
                  name_of(accepted.dtype));
  if (array.rank() < accepted.least_rank || array.rank() > accepted.most_rank)
    fail_argument(accepted.place, "{}: the array is {}; accepted: {}", accepted.term, to_string(array.shape),
                  accepted.shapes);
  check_sizes(array, accepted);
  if (array.data == nullptr && element_count(array.shape) > 0)
    fail_argument(accepted.place, "{}: the array has no memory, its data is null; its shape is {}", accepted.term,
                  to_string(array.shape));
}

constexpr Accepted kBits{{0}, "bits", DType::boolean, 2, 4, "[N, M], [H, N, M] or [B, H, N, M]", 2};
constexpr Accepted kBlocks{{1}, "blocks", DType::boolean, 2, 3, "[R, C] or [H, R, C] with R = C", 2};
constexpr Accepted kDocumentIds{{0}, "document_ids", DType::i32, 1, 2, "[M] or [B, M]", 1};

}  // namespace

Mask bits(const TensorView& allowed, const std::string& file) {
  check_array(allowed, kBits);
  return make_mask(term::Bits{pack_bits(allowed, file)});
}

Mask blocks(std::int64_t size, const TensorView& table, const std::string& file) {
  check_argument({0}, "blocks: block size", size, {1, kMaxExtent});
  check_array(table, kBlocks);
  if (table.shape[table.rank() - 2] != table.shape.back())
    fail_argument(kBlocks.place, "blocks: the array is {}; accepted: {}", to_string(table.shape), kBlocks.shapes);
  return make_mask(term::Blocks{size, pack_bits(table, file)});
}

Mask document_ids(const TensorView& ids, const std::string& file) {
  check_array(ids, kDocumentIds);
  auto array = std::make_shared<term::DocumentIds::Array>();
  array->shape = ids.shape;
  const std::int64_t items = ids.rank() == 2 ? ids.shape[0] : 1, length = ids.shape.back();
  check_memory(fmt::format("document_ids of {}", to_string(ids.shape)),
               static_cast<double>(items) * static_cast<double>(length) * sizeof(std::int32_t));
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
