// SPDX-License-Identifier: Apache-2.0
#include "src/model/character_level.h"

#include <algorithm>
#include <utility>

#include "src/model/unicode.h"

namespace stof {

// Takes symbols one by one; those between which nothing is merged part words.
class CharacterLevel::Writer {
 public:
  Writer(const CharacterLevel& model, std::vector<std::int32_t>& ids) : model_(model), ids_(ids) {}

  void add_character(char32_t c, std::int32_t id) {
    add_unknown();
    add(id, {c, c});
  }
  void add_bytes(std::string_view character) {
    for (const char byte : character) add(model_.options_.bytes[static_cast<unsigned char>(byte)], {U'<', U'>'});
  }
  // The definition tells of unknown characters before the next one that has a token, or at the end: so behind the bytes
  // of those between them.
  void see_unknown() {
    if (!model_.options_.fuse_unknown) add_unknown();
    unknown_ = model_.options_.unknown;
  }
  void finish() {
    add_unknown();
    model_.pairs_.append_ids(work_, ids_);
  }

 private:
  void add(std::int32_t id, Ends ends) {
    if (!model_.options_.joints.has(last_, ends.first)) model_.pairs_.append_ids(work_, ids_);
    work_.add(id);
    last_ = ends.last;
  }
  void add_unknown() {
    if (const auto unknown = std::exchange(unknown_, std::nullopt)) add(unknown->id, unknown->ends);
  }

  const CharacterLevel& model_;
  std::vector<std::int32_t>& ids_;
  BytePairs::Work work_;
  std::optional<UnknownToken> unknown_;  // seen, and not added yet
  char32_t last_ = 0;                    // with which the last symbol ends
};

CharacterLevel::CharacterLevel(CharacterLevelOptions options)
    : options_(std::move(options)), pairs_(std::exchange(options_.merges, std::vector<Merge>())) {}

bool CharacterLevel::has_bytes(std::string_view character) const {
  return std::ranges::all_of(character, [&](char byte) {
    return options_.bytes[static_cast<unsigned char>(byte)] != CharacterLevelOptions::kMissing;
  });
}

void CharacterLevel::append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
  Writer writer(*this, ids);
  while (!text.empty()) {
    const auto [c, bytes] = unicode::decode(text.data());
    const auto known = options_.characters.find(c);
    if (known != options_.characters.end()) writer.add_character(c, known->second);
    else if (has_bytes(text.substr(0, bytes))) writer.add_bytes(text.substr(0, bytes));
    else writer.see_unknown();
    text.remove_prefix(bytes);
  }
  writer.finish();
}

}  // namespace stof
