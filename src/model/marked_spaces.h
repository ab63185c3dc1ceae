// SPDX-License-Identifier: Apache-2.0
// Spaces as U+2581, and one before a text, as SentencePiece has them: what becomes of the parts of a text between added
// tokens.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace stof {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

// Before which parts that do not begin with a space or U+2581 the pre-tokenizer Metaspace puts one.
enum class Prepend : std::uint8_t { never, first, always };

// first: the part with which a text begins.
bool needs_mark(std::string_view part, Prepend scheme, bool begins_text);

// Appends U+2581 if so told, and the part with U+2581 in place of each space.
void append_marked(std::string_view part, bool mark_before, std::string& out);

// Appends the text with `space`, maybe nothing, in place of each U+2581.
void append_unmarked(std::string_view text, std::string_view space, std::string& out);

}  // namespace stof
