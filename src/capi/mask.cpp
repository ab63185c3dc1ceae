// SPDX-License-Identifier: Apache-2.0
// Masks in C: text, arrays, and what combines them.
#include "src/capi/array.h"
#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/mask/bind.h"

namespace {

using stof::capi::given;
using stof::capi::view_of;

// A handle for what `make` returns, or NULL.
template <class Make>
stof_status made(stof_mask** mask, std::string_view name, const Make& make) {
  if (mask != nullptr) *mask = nullptr;
  return stof::capi::guarded([&] {
    stof_mask*& handle = given(mask, name);
    handle = new stof_mask(make());
  });
}

}  // namespace

stof_status stof_mask_parse(const char* text, const char* folder, stof_mask** mask) {
  return made(mask, "stof_mask_parse: mask",
              [&] { return stof::parse(&given(text, "stof_mask_parse: text"), folder == nullptr ? "." : folder); });
}

stof_status stof_mask_bits(const stof_array* allowed, stof_mask** mask) {
  return made(mask, "stof_mask_bits: mask", [&] { return stof::bits(view_of(allowed, "stof_mask_bits: allowed")); });
}

stof_status stof_mask_blocks(int64_t size, const stof_array* table, stof_mask** mask) {
  return made(mask, "stof_mask_blocks: mask",
              [&] { return stof::blocks(size, view_of(table, "stof_mask_blocks: table")); });
}

stof_status stof_mask_document_ids(const stof_array* ids, stof_mask** mask) {
  return made(mask, "stof_mask_document_ids: mask",
              [&] { return stof::document_ids(view_of(ids, "stof_mask_document_ids: ids")); });
}

stof_status stof_mask_and(const stof_mask* a, const stof_mask* b, stof_mask** mask) {
  return made(mask, "stof_mask_and: mask",
              [&] { return given(a, "stof_mask_and: a").mask & given(b, "stof_mask_and: b").mask; });
}

stof_status stof_mask_or(const stof_mask* a, const stof_mask* b, stof_mask** mask) {
  return made(mask, "stof_mask_or: mask",
              [&] { return given(a, "stof_mask_or: a").mask | given(b, "stof_mask_or: b").mask; });
}

stof_status stof_mask_not(const stof_mask* a, stof_mask** mask) {
  return made(mask, "stof_mask_not: mask", [&] { return !given(a, "stof_mask_not: a").mask; });
}

int32_t stof_mask_depends_on_length(const stof_mask* mask) {
  return mask != nullptr && stof::depends_on_length(mask->mask) ? 1 : 0;
}

const char* stof_mask_text(const stof_mask* mask) { return mask == nullptr ? nullptr : mask->text.c_str(); }

void stof_mask_destroy(stof_mask* mask) { delete mask; }
