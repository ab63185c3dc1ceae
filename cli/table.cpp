// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/printable.h"

namespace stof::cli {

void Table::add(std::vector<std::string> cells) {
  STOF_CHECK(cells.size() == rows_.front().size());
  for (std::string& cell : cells) cell = printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::string out;
  for (const auto& row : rows_) {
    out += fmt::format("  {:<{}}", row[0], widths[0]);
    for (std::size_t column = 1; column < row.size(); ++column)
      out += fmt::format("  {:>{}}", row[column], widths[column]);
    out += '\n';
  }
  return out;
}

}  // namespace stof::cli
