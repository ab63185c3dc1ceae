// SPDX-License-Identifier: Apache-2.0
// Plain text tables: the first column to the left, the others to the right, as wide as their widest cell.
#pragma once
#include <string>
#include <vector>

namespace stof::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // As many cells as the header has.
  void add(std::vector<std::string> cells);
  std::string text() const;  // a line for each row, indented by two

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stof::cli
