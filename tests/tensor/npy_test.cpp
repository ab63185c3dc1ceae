// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/npy.h"

#include <sys/stat.h>

#include <numeric>
#include <string>

#include "src/tensor/npy_header.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using std::string_literals::operator""s;

template <class T>
Tensor tensor_of(DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.as<T>()[i] = static_cast<T>(i);
  return tensor;
}

std::string bytes_of(const Tensor& tensor) { return {tensor.as<char>(), tensor.bytes()}; }

// An .npy file with this dictionary, as format version 1.0.
std::string npy_file(const std::string& dictionary, const std::string& data) {
  const auto length = static_cast<std::uint16_t>(dictionary.size());
  return "\x93NUMPY\x01\x00"s + static_cast<char>(length & 0xFF) + static_cast<char>(length >> 8) + dictionary + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

class Npy : public testing::Test {
 protected:
  std::string expect(const std::string& message) const { return "cannot read '" + file.string() + "': " + message; }
  void refuses(const std::string& content, const std::string& message) const {
    write_bytes(file, content);
    EXPECT_ERROR(read_npy(file), ErrorKind::bad_file, expect(message));
  }
  TemporaryFolder folder;
  std::filesystem::path file = folder / "a.npy";
};

TEST_F(Npy, RoundTripsEveryDType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i32, DType::i64, DType::boolean}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 4}, Shape{2, 1, 3, 4}}) {
      Tensor tensor(dtype, shape);
      for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.as<std::uint8_t>()[i] = i % 3 == 0;
      write_npy(file, tensor.view());
      const Tensor back = read_npy(file);
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_EQ(bytes_of(back), bytes_of(tensor));
    }
  }
}

// The bytes numpy.save writes for numpy.arange(3, dtype="<f4").
TEST_F(Npy, WritesWhatNumPyWrites) {
  write_npy(file, tensor_of<float>(DType::f32, {3}).view());
  EXPECT_EQ(read_bytes(file), "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"s +
                                  std::string(60, ' ') + "\n" + "\0\0\0\0\0\0\x80\x3F\0\0\0\x40"s);
}

TEST_F(Npy, ReadsFortranOrderIntoCOrder) {
  write_bytes(file,
              npy_file(dictionary("'<i4'", "(2, 3)", "True"), "\0\0\0\0\3\0\0\0\1\0\0\0\4\0\0\0\2\0\0\0\5\0\0\0"s));
  const Tensor tensor = read_npy(file);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(bytes_of(tensor), bytes_of(tensor_of<std::int32_t>(DType::i32, {2, 3})));
}

TEST_F(Npy, ReadsLargeFortranOrder) {
  const Shape shape{70, 3, 130};
  const Tensor expected = tensor_of<std::int64_t>(DType::i64, shape);
  Tensor stored(DType::i64, {130, 3, 70});
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t k = 0; k < 130; ++k)
        stored.as<std::int64_t>()[(k * 3 + j) * 70 + i] = expected.as<std::int64_t>()[(i * 3 + j) * 130 + k];
  write_bytes(file, npy_file(dictionary("'<i8'", "(70, 3, 130)", "True"), bytes_of(stored)));
  EXPECT_EQ(bytes_of(read_npy(file)), bytes_of(expected));
}

TEST_F(Npy, ReadsVersions2And3) {
  const std::string text = dictionary("'|b1'", "(2,)");
  for (const char version : {'\2', '\3'}) {
    write_bytes(file, "\x93NUMPY"s + version + "\0"s + static_cast<char>(text.size()) + "\0\0\0"s + text + "\1\0"s);
    EXPECT_EQ(bytes_of(read_npy(file)), "\1\0"s);
  }
}

TEST_F(Npy, WritesAnyStrides) {
  const Tensor tensor = tensor_of<float>(DType::f32, {100, 70});
  TensorView transposed = tensor.view();
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  write_npy(file, transposed);
  const Tensor back = read_npy(file);
  ASSERT_EQ(back.shape(), (Shape{70, 100}));
  for (int i = 0; i < 70; ++i)
    for (int j = 0; j < 100; ++j) ASSERT_EQ(back.as<float>()[i * 100 + j], static_cast<float>(j * 70 + i));
}

TEST_F(Npy, RefusesOtherDTypesByName) {
  const std::string accepted = "; accepted: little-endian f4, f2, i4, i8, and bool";
  refuses(npy_file(dictionary("'>f4'", "(1,)"), "1234"), "its dtype '>f4' is big-endian" + accepted);
  refuses(npy_file(dictionary("'<f8'", "(1,)"), "12345678"),
          "its dtype is '<f8', what numpy makes unless told" + accepted + ", as of .astype('f4')");
  refuses(npy_file(dictionary("'<i2'", "(1,)"), "12"), "its dtype is '<i2'" + accepted);
  refuses(npy_file(dictionary("'|O'", "(1,)"), "1234"), "its dtype '|O' is pickled Python objects" + accepted);
  refuses(npy_file(dictionary("[('a', '<f4')]", "(1,)"), "1234"), "its dtype is structured" + accepted);
  EXPECT_ERROR(write_npy(file, Tensor(DType::bf16, {2}).view()), ErrorKind::invalid_argument,
               "an .npy file cannot hold bf16; accepted: f32, f16, i32, i64, bool");
}

TEST_F(Npy, RefusesWrongSizes) {
  const std::string text = dictionary("'<f4'", "(2, 2)");
  refuses(npy_file(text, std::string(15, 'x')), "f32 [2, 2] needs 16 bytes of data, but it has 15");
  refuses(npy_file(text, std::string(17, 'x')), "f32 [2, 2] needs 16 bytes of data, but it has 17");
  refuses(npy_file(dictionary("'<f4'", "(1152921504606846976, 1)"), ""),
          "f32 [1152921504606846976, 1] needs 4611686018427387904 bytes of data, but it has 0");
  refuses(npy_file(dictionary("'<f4'", "(4611686018427387904, 4611686018427387904, 0)"), ""),
          "its shape [4611686018427387904, 4611686018427387904, 0] does not fit the address space");
  refuses(npy_file(dictionary("'<f4'", "(99999999999999999999,)"), ""),
          "a dimension of its shape does not fit 64 bits");
  refuses(npy_file(dictionary("'<f4'", "(-1,)"), ""), "its shape has the negative dimension -1");
  refuses(npy_file(dictionary(
                       "'|b1'", "(" +
                                    [] {
                                      std::string ones;
                                      for (int i = 0; i < 33; ++i) ones += "1,";
                                      return ones;
                                    }() +
                                    ")"),
                   "\1"),
          "it has 33 dimensions; accepted: at most 32");
}

TEST_F(Npy, RefusesBrokenHeaders) {
  refuses("", "it is empty; accepted: an .npy file, as numpy.save writes it");
  refuses("\x93NUMPY\x01", "it is not an .npy file: it is shorter than the magic and length");
  refuses("PK\x03\x04 a zip archive", "it is not an .npy file: the magic is missing");
  refuses("\x93NUMPY\x04\x00\x10\x00................"s, "its .npy format version is 4.0; accepted: 1.0, 2.0, 3.0");
  refuses("\x93NUMPY\x01\x00\xFF\x00{'descr"s, "its header has 255 bytes, but only 7 follow");
  refuses("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{}"s, "its header has 4294967295 bytes; accepted: at most 1048576");
  refuses(npy_file("{'descr': '<f4', 'shape': (1,)}", "1234"),
          "its header lacks one of 'descr', 'fortran_order', 'shape'");
  refuses(npy_file("{'descr': '<f4', 'descr': '<f4'}", ""), "its header has an unknown or repeated key 'descr'");
  refuses(npy_file("{'descr': '<f4' 'shape': (1,)}", "1234"), "its .npy header is malformed at character 16");
  refuses(npy_file("{'descr': '<f4", ""), "its .npy header is malformed at character 11");
  refuses(npy_file(dictionary("'<f4'", "(1,)") + "x", "1234"), "its .npy header is malformed at character 58");
}

TEST_F(Npy, RefusesBoolsOtherThan0And1) {
  refuses(npy_file(dictionary("'|b1'", "(3,)"), "\0\1\2"s),
          "element 2 of its bool data is the byte 2; accepted: 0 and 1");
}

TEST_F(Npy, RefusesPathsThatAreNoFile) {
  EXPECT_ERROR(read_npy(file), ErrorKind::bad_file, expect("No such file or directory"));
  EXPECT_ERROR(read_npy(folder.path()), ErrorKind::bad_file,
               "cannot read '" + folder.path().string() + "': it is a folder; accepted: a regular .npy file");
  EXPECT_ERROR(read_npy("/dev/null"), ErrorKind::bad_file,
               "cannot read '/dev/null': it is a device; accepted: a regular .npy file");
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_ERROR(read_npy(file), ErrorKind::bad_file, expect("it is a pipe; accepted: a regular .npy file"));
}

TEST_F(Npy, EveryTruncationIsRefused) {
  write_npy(file, tensor_of<float>(DType::f32, {2, 3}).view());
  const std::string whole = read_bytes(file);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(file, whole.substr(0, size));
    EXPECT_THROW(read_npy(file), Error) << size;
  }
}

}  // namespace
}  // namespace stof
