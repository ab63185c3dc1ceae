// SPDX-License-Identifier: Apache-2.0
// The border to C: no exception crosses it, and why a call failed is kept for the thread that made it.
#pragma once
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/base/error.h"
#include "stof/stof.h"

namespace stof::capi {

inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 47;  // of addresses, on the processors there are

// Inside a handler: the code for what is being handled; its text is stof_last_error() from then on.
stof_status keep_failure() noexcept;

template <class Work>
stof_status guarded(const Work& work) noexcept {
  try {
    work();
    return STOF_OK;
  } catch (...) {
    return keep_failure();
  }
}

// What a pointer argument points to. `name`: "stof_mask_not: a".
template <class Object>
Object& given(Object* object, std::string_view name) {
  if (object == nullptr) fail(ErrorKind::invalid_argument, "{} is NULL", name);
  return *object;
}

// A structure that says how large its caller takes it to be.
template <class Structure>
const Structure& given_sized(const Structure* structure, std::string_view name) {
  const Structure& found = given(structure, name);
  if (found.struct_size != sizeof(Structure))
    fail(ErrorKind::invalid_argument, "{}.struct_size is {}; accepted: {}", name, found.struct_size, sizeof(Structure));
  return found;
}

// The same of one that the library writes into.
template <class Structure>
Structure& written_sized(Structure* structure, std::string_view name) {
  given_sized(structure, name);
  return *structure;
}

// Of a structure that may be NULL, which is all defaults.
template <class Structure>
Structure given_or_defaults(const Structure* structure, std::string_view name) {
  return structure == nullptr ? Structure{} : given_sized(structure, name);
}

// One that grew: as it is now, with zeros where its caller does not know of what came after one of the `earlier` sizes.
template <class Structure, std::size_t kEarlier>
Structure given_grown(const Structure* structure, const std::size_t (&earlier)[kEarlier], std::string_view name) {
  const std::size_t size = given(structure, name).struct_size;
  if (size != sizeof(Structure) && std::find(earlier, earlier + kEarlier, size) == earlier + kEarlier)
    fail(ErrorKind::invalid_argument, "{}.struct_size is {}; accepted: {}, {}", name, size,
         fmt::join(earlier, earlier + kEarlier, ", "), sizeof(Structure));
  Structure whole{};
  std::memcpy(&whole, structure, size);
  return whole;
}

// Throws invalid_argument when the host cannot read the address because it is a GPU's. The message begins with both
// names.
void check_host_address(std::string_view of, std::string_view name, const void* address);

}  // namespace stof::capi
