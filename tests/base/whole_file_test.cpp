// SPDX-License-Identifier: Apache-2.0
#include "src/base/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/temporary_folder.h"

namespace stof {
namespace {

TEST(WholeFile, IsReadAsItIs) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n\xff", 5);
  std::ofstream(folder / "file", std::ios::binary) << bytes;
  EXPECT_EQ(read_whole_file(folder / "file"), bytes);
  std::ofstream(folder / "empty").close();
  EXPECT_EQ(read_whole_file(folder / "empty"), "");
}

// A pipe would wait for somebody to write, /dev/zero would never end.
TEST(WholeFile, OnlyRegularFilesAreOpened) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_whole_file(folder / "pipe"), std::nullopt);
  EXPECT_EQ(read_whole_file(folder.path()), std::nullopt);
  EXPECT_EQ(read_whole_file("/dev/zero"), std::nullopt);
  EXPECT_EQ(read_whole_file(folder / "none"), std::nullopt);
  EXPECT_EQ(read_whole_file(folder / std::string(300, 'x')), std::nullopt);
}

TEST(WholeFile, NothingIsReadThatIsLargerThanAnyOfOurs) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file").close();
  std::filesystem::resize_file(folder / "file", kMostWholeFile + 1);
  EXPECT_EQ(read_whole_file(folder / "file"), std::nullopt);
}

}  // namespace
}  // namespace stof
