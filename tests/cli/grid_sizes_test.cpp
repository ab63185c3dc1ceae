// SPDX-License-Identifier: Apache-2.0
// docs/cli.md says how many problems a GPU is calibrated and judged by.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/gpu_grid.h"
#include "tests/source_folder.h"

namespace stof::cli {
namespace {

// The section of stof calibrate, a space between any two words.
std::string words_of_page() {
  std::ifstream page(source_folder() / "docs/cli.md");
  std::string line, word, words;
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with("## ")) inside = line == "## stof calibrate";
    std::istringstream rest(inside ? line : "");
    while (rest >> word) words += word + " ";
  }
  return words;
}

TEST(GridSizes, AreThoseOfThePage) {
  const std::string words = words_of_page();
  for (const std::string& said : {fmt::format("is considered for {} problems", gpu_calibration_grid().size()),
                                  fmt::format("does the same for {} other problems", gpu_held_out_grid().size()),
                                  fmt::format("the problems are {} others", gpu_capped_grid(50).size()),
                                  fmt::format("`--grouped` {} others", gpu_grouped_grid().size())})
    EXPECT_NE(words.find(said), std::string::npos) << said;
}

}  // namespace
}  // namespace stof::cli
