// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/mask/density_grid.h"
#include "src/mask/draw.h"

namespace stof {
namespace {

constexpr std::int64_t kMostPixels = 1024;  // a side
constexpr std::int64_t kMostPanels = 16;
constexpr std::int64_t kGap = 8;           // between panels
constexpr std::int64_t kLargestCell = 32;  // pixels a side; an 8 x 8 mask need not fill the screen
constexpr std::int64_t kMostLines = 16;
constexpr std::uint8_t kWhite = 255, kFaintest = 208, kBetweenPanels = 160;

// How every panel of an image is drawn.
struct PanelScale {
  std::int64_t cell = 1;     // elements a side
  std::int64_t pixels = 1;   // of a cell, a side
  std::int64_t spacing = 1;  // elements between lines, a multiple of `cell`
  std::int64_t width = 0, height = 0;
};

PanelScale scale_for(const MaskExtent& extent, std::int64_t most_pixels) {
  const std::int64_t longest = std::max<std::int64_t>({extent.queries, extent.keys, 1});
  PanelScale scale{.cell = cell_side(longest, most_pixels)};
  scale.pixels = std::clamp<std::int64_t>(most_pixels / ceil_div(longest, scale.cell), 1, kLargestCell);
  scale.spacing = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(longest, kMostLines))));
  scale.spacing = ceil_div(scale.spacing, scale.cell) * scale.cell;
  scale.width = ceil_div(extent.keys, scale.cell) * scale.pixels;
  scale.height = ceil_div(extent.queries, scale.cell) * scale.pixels;
  return scale;
}

std::uint8_t grey(double density) {
  return density == 0 ? kWhite : static_cast<std::uint8_t>(std::lround(kFaintest * (1 - density)));
}

// Half-way to mid-grey, which shows on white and on black.
std::uint8_t lined(std::uint8_t pixel) { return static_cast<std::uint8_t>((pixel + 128) / 2); }

void draw_panel(const DensityGrid& grid, const PanelScale& scale, std::int64_t first_pixel, Image& image) {
  const auto on_line = [&](std::int64_t pixel) {
    return pixel > 0 && pixel % (scale.spacing / scale.cell * scale.pixels) == 0;
  };
  std::vector<std::uint8_t> cells(static_cast<std::size_t>(grid.columns));
  for (std::int64_t y = 0; y < scale.height; ++y) {
    if (y % scale.pixels == 0)
      for (std::int64_t column = 0; column < grid.columns; ++column)
        cells[static_cast<std::size_t>(column)] = grey(grid.density(y / scale.pixels, column));
    std::uint8_t* line = image.pixels.data() + first_pixel + y * image.width;
    for (std::int64_t x = 0; x < scale.width; ++x) {
      const std::uint8_t pixel = cells[static_cast<std::size_t>(x / scale.pixels)];
      line[x] = on_line(x) || on_line(y) ? lined(pixel) : pixel;
    }
  }
}

}  // namespace

Image draw_image(const BoundMask& mask) {
  const std::int64_t panels = std::min<std::int64_t>(mask.groups(), kMostPanels);
  const auto across = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(panels))));
  const std::int64_t down = ceil_div(panels, across);
  const PanelScale scale = scale_for(mask.extent(), (kMostPixels - (across - 1) * kGap) / across);
  Image image{.width = across * (scale.width + kGap) - kGap, .height = down * (scale.height + kGap) - kGap};
  image.pixels.assign(static_cast<std::size_t>(image.width * image.height), kBetweenPanels);
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t x = panel % across * (scale.width + kGap), y = panel / across * (scale.height + kGap);
    draw_panel(density_grid(mask, static_cast<int>(panel), {scale.cell, scale.cell}), scale, y * image.width + x,
               image);
  }
  return image;
}

void write_png(const std::filesystem::path& path, const Image& image) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<std::byte> encoded(bytes);
  if (png_image_write_to_memory(&png, encoded.data(), &bytes, 0, image.pixels.data(), 0, nullptr) == 0)
    fail(ErrorKind::internal, "cannot encode '{}': {}", path.string(), png.message);
  AtomicFile file(path);
  file.append(std::span(encoded).first(bytes));
  file.commit();
}

}  // namespace stof
