// SPDX-License-Identifier: Apache-2.0
#include "src/mask/array_names.h"

#include <fmt/format.h>

#include <cctype>

namespace stof {
namespace {

// Names made of these need no quotes in the text of a mask.
bool plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '_' || c == '-' || c == '+';
}

std::string quote(const std::string& name) {
  bool all_plain = true;
  for (const char c : name) all_plain = all_plain && plain(c);
  if (all_plain) return name;
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string ArraySource::print(ArrayNames names) const {
  return names == ArrayNames::display && !file.empty() ? quote(file) : fmt::format("#{}", content.hex());
}

std::string ArraySource::subject() const { return file.empty() ? "the array" : fmt::format("the array '{}'", file); }

}  // namespace stof
