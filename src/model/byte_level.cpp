// SPDX-License-Identifier: Apache-2.0
#include "src/model/byte_level.h"

#include "src/model/unicode.h"

namespace stof {
namespace {

constexpr bool in(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

// Printable characters of Latin-1: not a control, a space or the soft hyphen.
constexpr bool stands_for_itself(char32_t c) { return in(c, 0x21, 0x7E) || in(c, 0xA1, 0xAC) || in(c, 0xAE, 0xFF); }

// The character of each byte.
constexpr std::array<char32_t, 256> characters() {
  std::array<char32_t, 256> result{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) result[byte] = stands_for_itself(byte) ? byte : next++;
  return result;
}
constexpr std::array<char32_t, 256> kCharacters = characters();

// And the byte of each character, or -1.
constexpr auto kBytes = [] {
  std::array<int, 0x100 + 68> result{};
  result.fill(-1);
  for (std::size_t byte = 0; byte < kCharacters.size(); ++byte) result[kCharacters[byte]] = static_cast<int>(byte);
  return result;
}();

}  // namespace

ByteLevel::ByteLevel(ByteLevelOptions options)
    : bytes_(options.bytes),
      add_prefix_space_(options.add_prefix_space),
      split_(options.split),
      words_(std::move(options.words)),
      pairs_(options.merges) {}

void ByteLevel::append_ids(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::string prefixed;
  if (add_prefix_space_ && text[0] != ' ') {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  BytePairs::Work work;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, first_word(text, split_));
    text.remove_prefix(word.size());
    if (!words_.empty())
      if (const std::optional<std::int32_t> id = words_.find(word)) {
        ids.push_back(*id);
        continue;
      }
    for (const char byte : word) work.add(bytes_[static_cast<unsigned char>(byte)]);
    pairs_.append_ids(work, ids);
  }
}

std::string ByteLevel::token_of(unsigned char byte) {
  std::string token;
  unicode::append(token, kCharacters[byte]);
  return token;
}

bool ByteLevel::append_bytes(std::string_view token, std::string& bytes) {
  const std::size_t before = bytes.size();
  while (!token.empty()) {
    const auto [c, size] = unicode::decode(token.data());
    if (c >= kBytes.size() || kBytes[c] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(kBytes[c]);
    token.remove_prefix(size);
  }
  return true;
}

bool ByteLevel::stands_for(std::string_view token, std::string_view bytes) {
  for (const char byte : bytes) {
    if (token.empty()) return false;
    const auto [c, size] = unicode::decode(token.data());
    if (c != kCharacters[static_cast<unsigned char>(byte)]) return false;
    token.remove_prefix(size);
  }
  return token.empty();
}

}  // namespace stof
