// SPDX-License-Identifier: Apache-2.0
// The normalisation that SentencePiece compiles into a model (`precompiled_charsmap`): what each character, or a few
// together, are replaced by. A double array of byte strings (Yata's Darts-clone) in front of the texts that stand in
// their place.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stof {

class CharacterMap {
 public:
  // Throws bad_file led by `where`: sizes that do not fit, texts that are not UTF-8.
  CharacterMap(std::string_view compiled, std::string_view where);

  // Appends the normalised text; `text` is well-formed UTF-8, and so is what is appended. Graphemes of less than six
  // bytes are looked for first, and replaced by what their beginning is replaced by, then characters.
  void append(std::string_view text, std::string& out) const;

 private:
  std::optional<std::string_view> replacement(std::string_view characters) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // each with a 0 byte behind it
};

}  // namespace stof
