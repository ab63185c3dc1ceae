// SPDX-License-Identifier: Apache-2.0
// How each term is written, "window(w) or window(l,r)" for one: docs/masks.md says what they allow.
#pragma once
#include <string_view>
#include <vector>

namespace stof {

std::vector<std::string_view> usages_of_terms();

}  // namespace stof
