// SPDX-License-Identifier: Apache-2.0
#include "src/model/file_map.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/error.h"
#include "src/base/open_file.h"

namespace stof {
namespace {

struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

FileMap::FileMap(const std::filesystem::path& file) {
  const auto refuse_system = [&] {
    fail(ErrorKind::bad_file, "cannot read {}: {}", file.string(), std::strerror(errno));
  };
  const Descriptor descriptor(open_to_read(file));
  struct stat status {};
  if (descriptor.number < 0 || fstat(descriptor.number, &status) != 0) refuse_system();
  if (!S_ISREG(status.st_mode))
    fail(ErrorKind::bad_file, "cannot read {}: {}; accepted: a regular file", file.string(),
         kind_of_file(status.st_mode));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses a length of 0
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (address == MAP_FAILED) refuse_system();
  bytes_ = {static_cast<const std::byte*>(address), size};
}

FileMap::~FileMap() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace stof
