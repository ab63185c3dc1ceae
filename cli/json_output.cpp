// SPDX-License-Identifier: Apache-2.0
#include "cli/json_output.h"

#include <fmt/format.h>

#include <cstdio>

#include "src/base/atomic_file.h"

namespace stof::cli {

void write_json(const Json& value, const std::string& file) {
  // The names of files are bytes; JSON is UTF-8.
  write_text(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", file);
}

void write_text(const std::string& text, const std::string& file) {
  if (file == "-") {
    fmt::print("{}", text);
    return;
  }
  AtomicFile out(file);
  out.append(text);
  out.commit();
}

}  // namespace stof::cli
