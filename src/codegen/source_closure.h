// SPDX-License-Identifier: Apache-2.0
// A source with the text of everything that it includes: what a cache key must cover.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "src/codegen/embedded.h"

namespace stof {

// Each header of the closure once, after the file that includes it first. Throws invalid_argument for an include "..."
// that is not among the headers.
std::string source_closure(std::string_view source, std::span<const EmbeddedFile> headers);

}  // namespace stof
