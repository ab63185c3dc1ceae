// SPDX-License-Identifier: Apache-2.0
#include "src/mask/draw.h"

#include <gtest/gtest.h>
#include <png.h>

#include "src/mask/density_grid.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

BoundMask bind(std::string_view mask, const MaskExtent& extent) { return {parse(mask), extent}; }

TEST(DensityGrid, EqualsCounting) {
  constexpr GridCell kCells[] = {{1, 1}, {2, 1}, {16, 32}, {64, 64}, {128, 64}, {4, 128}};
  for (const char* text : {"causal", "window(9)", "longformer(20,3)", "strided(5) & causal", "!window(40)", "none"})
    for (const MaskExtent& extent : {MaskExtent{.queries = 200, .keys = 200}, MaskExtent{.queries = 70, .keys = 259},
                                     MaskExtent{.queries = 259, .keys = 70}})
      for (const GridCell& cell : kCells) {
        SCOPED_TRACE(testing::Message() << text << " " << extent.queries << "x" << extent.keys << " in cells of "
                                        << cell.rows << "x" << cell.keys);
        const BoundMask mask = bind(text, extent);
        std::vector<std::int64_t> expected(
            static_cast<std::size_t>(ceil_div(extent.queries, cell.rows) * ceil_div(extent.keys, cell.keys)));
        for (std::int64_t row = 0; row < extent.queries; ++row)
          for (std::int64_t key = 0; key < extent.keys; ++key)
            expected[static_cast<std::size_t>(row / cell.rows * ceil_div(extent.keys, cell.keys) + key / cell.keys)] +=
                mask.allows(0, row, key);
        EXPECT_EQ(density_grid(mask, 0, cell).allowed, expected);
      }
}

TEST(DensityGrid, CellsNestInScannedCells) {
  EXPECT_EQ(cell_side(1, 64), 1);
  EXPECT_EQ(cell_side(64, 64), 1);
  EXPECT_EQ(cell_side(65, 64), 2);
  EXPECT_EQ(cell_side(4096, 64), 64);
  EXPECT_EQ(cell_side(4097, 64), 128);
  EXPECT_EQ(cell_side(16384, 64), 256);
  for (std::int64_t length = 1; length < 30000; length += 7) EXPECT_LE(ceil_div(length, cell_side(length, 64)), 64);
}

TEST(DrawText, SmallMasksShowEveryElement) {
  EXPECT_EQ(draw_text(bind("causal & window(1)", {.queries = 3, .keys = 4}), 0),
            "0 ████····\n"
            "1 ··████··\n"
            "2 ····████\n"
            "█ all  ▒ some  · none; each 1 query x 1 key\n");
}

TEST(DrawText, LargeMasksShowWhatIsInACell) {
  const std::string text = draw_text(bind("causal", {.queries = 16384, .keys = 16384}), 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 33);
  const auto dots = [](int count) {
    std::string line;
    for (int i = 0; i < count; ++i) line += "·";
    return line;
  };
  EXPECT_TRUE(text.starts_with("    0 ▒▒" + dots(62) + "\n  512 ██▒▒" + dots(60) + "\n")) << text;
  EXPECT_TRUE(text.ends_with("█ all  ▒ some  · none; each 512 queries x 256 keys\n"));
}

TEST(DrawText, OneRowAndManyRows) {
  const std::string one = draw_text(bind("sink(2000)", {.queries = 1, .keys = 100000}), 0);
  EXPECT_TRUE(one.starts_with("0 █▒··")) << one;
  const std::string many = draw_text(bind("all", {.queries = 128, .keys = 2}), 0);
  EXPECT_TRUE(many.starts_with("  0 █\n  4 █\n")) << many;
}

TEST(DrawImage, IsBlackWhiteAndGreyWithLines) {
  const Image image = draw_image(bind("causal", {.queries = 32, .keys = 32}));
  ASSERT_EQ(image.width, 1024);
  ASSERT_EQ(image.height, 1024);
  const auto at = [&](int x, int y) { return static_cast<int>(image.pixels[static_cast<std::size_t>(y * 1024 + x)]); };
  EXPECT_EQ(at(1, 40), 0);
  EXPECT_EQ(at(40, 1), 255);
  EXPECT_EQ(at(64, 1), (255 + 128) / 2);
  EXPECT_EQ(at(1, 64), 128 / 2);
  const Image grey = draw_image(bind("strided(4)", {.queries = 2048, .keys = 2048}));
  EXPECT_EQ(grey.width, 1024);
  EXPECT_EQ(static_cast<int>(grey.pixels[1024 + 1]), 208 / 2);
  EXPECT_EQ(static_cast<int>(grey.pixels[1024 + 2]), 255);
}

TEST(DrawImage, HasAPanelForEachDistinctMask) {
  const BoundMask mask = bind("heads(0: all, 1: none, *: causal)", {.queries = 64, .keys = 64, .heads = 8});
  const Image image = draw_image(mask);
  EXPECT_EQ(image.width, 2 * 64 * 7 + 8);
  EXPECT_EQ(image.height, image.width);
  const auto at = [&](std::int64_t x, std::int64_t y) {
    return static_cast<int>(image.pixels[static_cast<std::size_t>(y * image.width + x)]);
  };
  EXPECT_EQ(at(1, 1), 0);
  EXPECT_EQ(at(image.width - 1, 1), 255);
  EXPECT_EQ(at(1, image.height - 1), 0);
  EXPECT_EQ(at(image.width - 1, image.height - 1), 160);
}

TEST(WritePng, RoundTrips) {
  const TemporaryFolder folder;
  const Image image = draw_image(bind("longformer(8,2)", {.queries = 50, .keys = 80}));
  const std::filesystem::path path = folder / "mask.png";
  write_png(path, image);
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&png, path.c_str()), 0) << png.message;
  EXPECT_EQ(png.width, image.width);
  EXPECT_EQ(png.height, image.height);
  png.format = PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  ASSERT_NE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr), 0) << png.message;
  EXPECT_EQ(pixels, image.pixels);
  const std::string missing = (folder / "no/mask.png").string();
  EXPECT_ERROR(write_png(missing, image), ErrorKind::bad_file,
               "cannot write '" + missing + "': No such file or directory");
}

}  // namespace
}  // namespace stof
