// SPDX-License-Identifier: Apache-2.0
#include "cli/json_output.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "src/base/error.h"

namespace stof::cli {

void write_json(const Json& value, const std::string& file) {
  const std::string text = value.dump(2) + "\n";
  if (file == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(ErrorKind::bad_file, "cannot write {}: the folder does not exist, or is read-only or full", file);
}

}  // namespace stof::cli
