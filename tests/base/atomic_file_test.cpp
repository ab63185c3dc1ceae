// SPDX-License-Identifier: Apache-2.0
#include "src/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(AtomicFile, AppearsOnCommit) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  write_bytes(path, "before");
  AtomicFile file(path);
  file.append("after, ");
  file.append("whole");
  EXPECT_EQ(read_bytes(path), "before");
  file.commit();
  EXPECT_EQ(read_bytes(path), "after, whole");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  AtomicFile(folder / "a").append("lost");
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(AtomicFile, HasNoNameUntilItIsWhole) {
  const TemporaryFolder folder;
  const int unnamed = open(folder.path().c_str(), O_WRONLY | O_TMPFILE);
  if (unnamed < 0) GTEST_SKIP() << "this file system gives every file a name";
  close(unnamed);
  AtomicFile file(folder / "a");
  file.append("half");
  EXPECT_EQ(files_in(folder.path()), 0);
  file.commit();
  EXPECT_EQ(files_in(folder.path()), 1);
  EXPECT_EQ(read_bytes(folder / "a"), "half");
}

// Who might read the file before may read it afterwards, and nobody else; a link's target decides.
TEST(AtomicFile, KeepsWhoMayReadIt) {
  const TemporaryFolder folder;
  const fs::perms owner = fs::perms::owner_read | fs::perms::owner_write, group = owner | fs::perms::group_read;
  fs::create_symlink(folder / "a", folder / "link");
  for (const fs::perms kept : {owner, group, owner}) {
    write_bytes(folder / "a", "before");
    fs::permissions(folder / "a", kept);
    AtomicFile file(folder / (kept == group ? "link" : "a"));
    file.append("after");
    file.commit();
    EXPECT_EQ(fs::status(folder / "a").permissions(), kept);
  }
}

TEST(AtomicFile, KeepsALinkALink) {
  const TemporaryFolder folder;
  write_bytes(folder / "target", "before");
  fs::create_symlink(folder / "target", folder / "link");
  AtomicFile file(folder / "link");
  file.append("after");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "target"), "after");
}

TEST(AtomicFile, CreatesWhatALinkPointsTo) {
  const TemporaryFolder folder;
  fs::create_symlink("later", folder / "first");
  fs::create_symlink("target", folder / "later");
  AtomicFile file(folder / "first");
  file.append("there");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_TRUE(fs::is_symlink(folder / "later"));
  EXPECT_EQ(read_bytes(folder / "target"), "there");
}

TEST(AtomicFile, RefusesARingOfLinks) {
  const TemporaryFolder folder;
  fs::create_symlink("a", folder / "b");
  fs::create_symlink("b", folder / "a");
  const std::string ring = (folder / "a").string();
  EXPECT_ERROR(AtomicFile{ring}, ErrorKind::bad_file, "cannot write '" + ring + "': Too many levels of symbolic links");
  EXPECT_EQ(files_in(folder.path()), 2);
}

TEST(AtomicFile, ReplacesALinkWhereItIsAskedTo) {
  const TemporaryFolder folder;
  write_bytes(folder / "target", "before");
  fs::create_symlink(folder / "target", folder / "link");
  AtomicFile file(folder / "link", TakenName::replaced);
  file.append("after");
  file.commit();
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_bytes(folder / "link"), "after");
  EXPECT_EQ(read_bytes(folder / "target"), "before");
  EXPECT_ERROR((AtomicFile{folder.path(), TakenName::replaced}), ErrorKind::bad_file,
               "cannot write '" + folder.path().string() + "': it is a directory");
}

TEST(AtomicFile, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "no/such").string();
  EXPECT_ERROR(AtomicFile{missing}, ErrorKind::bad_file, "cannot write '" + missing + "': No such file or directory");
  const std::string longest = (folder / std::string(255, 'n')).string();
  EXPECT_ERROR(AtomicFile{longest}, ErrorKind::bad_file, "cannot write '" + longest + "': File name too long");
  EXPECT_ERROR(AtomicFile{folder.path()}, ErrorKind::bad_file,
               "cannot write '" + folder.path().string() + "': it is a directory");
}

TEST(AtomicFile, AFullDiskIsAnError) {
  AtomicFile file("/dev/full");
  EXPECT_ERROR(file.append("x"), ErrorKind::device, "cannot write '/dev/full': No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace stof
