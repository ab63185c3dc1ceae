// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/npy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/open_file.h"
#include "src/tensor/copy.h"
#include "src/tensor/npy_header.h"

namespace stof {
namespace {

constexpr std::uint64_t kMaxHeader = 1 << 20;  // a shape of 32 dimensions needs less than 1 KiB

// A regular file read from the front, whose size is known before anything is read.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path) : name_(path.string()), file_(open_to_read(path)) {
    struct stat status = {};
    if (file_ < 0 || fstat(file_, &status) != 0) refuse(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) {
      close(file_);
      refuse(fmt::format("{}; accepted: a regular .npy file", kind_of_file(status.st_mode)));
    }
    remaining_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() { close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  std::uint64_t remaining() const { return remaining_; }
  [[noreturn]] void refuse(std::string_view why) const {
    fail(ErrorKind::bad_file, "cannot read '{}': {}", name_, why);
  }

  void read_into(std::span<std::byte> to) {
    if (to.size() > remaining_) refuse("it ends early");
    remaining_ -= to.size();
    while (!to.empty()) {
      const ssize_t got = read(file_, to.data(), to.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(std::strerror(errno));
      if (got == 0) refuse("it ends early");
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  std::string name_;
  int file_;
  std::uint64_t remaining_ = 0;
};

std::uint64_t little_endian(std::span<const unsigned char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

NpyHeader read_header(InputFile& file) {
  unsigned char prefix[12];
  if (file.remaining() == 0) file.refuse("it is empty; accepted: an .npy file, as numpy.save writes it");
  if (file.remaining() < 10) file.refuse("it is not an .npy file: it is shorter than the magic and length");
  file.read_into(std::as_writable_bytes(std::span(prefix, 8)));
  if (std::memcmp(prefix, "\x93NUMPY", 6) != 0) file.refuse("it is not an .npy file: the magic is missing");
  const int major = prefix[6], minor = prefix[7];
  if (major < 1 || major > 3 || minor != 0)
    file.refuse(fmt::format("its .npy format version is {}.{}; accepted: 1.0, 2.0, 3.0", major, minor));
  const std::span length_bytes(prefix + 8, major == 1 ? 2 : 4);
  file.read_into(std::as_writable_bytes(length_bytes));
  const std::uint64_t length = little_endian(length_bytes);
  if (length > kMaxHeader)
    file.refuse(fmt::format("its header has {} bytes; accepted: at most {}", length, kMaxHeader));
  if (length > file.remaining())
    file.refuse(fmt::format("its header has {} bytes, but only {} follow", length, file.remaining()));
  std::string text(length, '\0');
  file.read_into(std::as_writable_bytes(std::span(text)));
  return parse_npy_header(text, file.name());
}

void check_size(const InputFile& file, const NpyHeader& header) {
  std::uint64_t bytes = size_of(header.dtype);
  for (const std::int64_t dim : header.shape)
    if (dim != 0 && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) bytes = UINT64_MAX;
  if (bytes > INT64_MAX)
    file.refuse(fmt::format("its shape {} does not fit the address space", to_string(header.shape)));
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) bytes = 0;
  if (bytes != file.remaining())
    file.refuse(fmt::format("{} {} needs {} bytes of data, but it has {}", name_of(header.dtype),
                            to_string(header.shape), bytes, file.remaining()));
}

void check_bools(const InputFile& file, const Tensor& tensor) {
  const std::span values(tensor.as<std::uint8_t>(), tensor.bytes());
  const auto bad = std::find_if(values.begin(), values.end(), [](std::uint8_t value) { return value > 1; });
  if (bad != values.end())
    file.refuse(
        fmt::format("element {} of its bool data is the byte {}; accepted: 0 and 1", bad - values.begin(), *bad));
}

// A Fortran-order array is the C-order array of the reversed shape, seen through reversed axes.
Tensor to_c_order(const Tensor& stored, const Shape& shape) {
  TensorView from = stored.view();
  from.shape = shape;
  std::reverse(from.strides.begin(), from.strides.end());
  Tensor result(stored.dtype(), shape);
  copy(from, result.view());
  return result;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  InputFile file(path);
  const NpyHeader header = read_header(file);
  check_size(file, header);
  Shape stored_shape = header.shape;
  if (header.fortran_order) std::reverse(stored_shape.begin(), stored_shape.end());
  Tensor stored(header.dtype, stored_shape);
  file.read_into(std::span(stored.as<std::byte>(), stored.bytes()));
  if (header.dtype == DType::boolean) check_bools(file, stored);
  if (header.fortran_order && header.shape.size() > 1) return to_c_order(stored, header.shape);
  return stored;
}

void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
  const std::string header = npy_header(tensor.dtype, tensor.shape);
  const auto bytes = static_cast<std::size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
  AtomicFile file(path);
  file.append(header);
  if (tensor.contiguous()) {
    file.append(std::span(tensor.as<const std::byte>(), bytes));
  } else {
    const Tensor packed(tensor.dtype, tensor.shape);
    copy(tensor, packed.view());
    file.append(std::span(packed.as<const std::byte>(), bytes));
  }
  file.commit();
}

}  // namespace stof
