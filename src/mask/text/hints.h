// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant who wrote what the mask language has not.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "src/mask/text/cursor.h"

namespace stof {

// " (did you mean 'window'?)", of the name that is nearest; "" where none is near. Capitals count for nothing.
std::string nearest_name(std::string_view written, std::span<const std::string_view> names);

// Fails, and says how it is written here, where `not`, `~`, `and` or `or` stands next.
void refuse_other_operators(Cursor& cursor);

}  // namespace stof
