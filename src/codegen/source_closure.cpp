// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/source_closure.h"

#include <algorithm>
#include <set>
#include <vector>

#include "src/base/error.h"

namespace stof {
namespace {

// The name between the quotes of an include line; empty for other lines.
std::string_view included(std::string_view line) {
  constexpr std::string_view kInclude = "#include \"";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find('"'));
}

std::vector<std::string_view> includes_of(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const std::string_view name = included(text.substr(0, end)); !name.empty()) names.push_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

}  // namespace

std::string source_closure(std::string_view source, std::span<const EmbeddedFile> headers) {
  std::string closure(source);
  std::set<std::string_view> seen;
  std::vector<std::string_view> waiting = includes_of(source);
  for (std::size_t next = 0; next < waiting.size(); ++next) {
    const std::string_view name = waiting[next];
    if (!seen.insert(name).second) continue;
    const auto header =
        std::find_if(headers.begin(), headers.end(), [&](const EmbeddedFile& file) { return file.name == name; });
    if (header == headers.end())
      fail(ErrorKind::invalid_argument, "kernel source includes \"{}\", which is not one of the library's {} headers",
           name, headers.size());
    closure += fmt::format("\n// {}\n{}", name, header->bytes);
    for (const std::string_view further : includes_of(header->bytes)) waiting.push_back(further);
  }
  return closure;
}

}  // namespace stof
