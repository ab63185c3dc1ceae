// SPDX-License-Identifier: Apache-2.0
// Pictures of masks: text for a terminal, a grey image for everything else. Query rows go down, keys across.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// At most 64 columns of three densities, with the first query row of each line, and a legend. UTF-8.
std::string draw_text(const BoundMask& mask, int group);

struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels = {};  // [height][width], 255 is white
};

// A panel for each of the first 16 groups, in rows, at most 1024 pixels a side. White is empty, black is full; a cell
// with any allowed pair is visibly darker than white. Lines every power of two of elements, at most 16 each way.
Image draw_image(const BoundMask& mask);

// Throws bad_file or device when the file cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace stof
