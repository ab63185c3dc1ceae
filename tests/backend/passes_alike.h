// SPDX-License-Identifier: Apache-2.0
// Whether a parameter that we declare without a library's header is passed as the header's own is.
#pragma once
#include <type_traits>

namespace stof::cuda {

// Parameters pass alike when both are pointers, or both are integers or enumerations of one size.
template <class A, class B>
constexpr bool passes_alike() {
  constexpr bool kBothPointers = std::is_pointer_v<A> && std::is_pointer_v<B>;
  constexpr bool kBothNumbers = !std::is_pointer_v<A> && !std::is_pointer_v<B> && sizeof(A) == sizeof(B);
  return kBothPointers || kBothNumbers;
}

}  // namespace stof::cuda
