// SPDX-License-Identifier: Apache-2.0
#include "src/model/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

std::string length_of(std::uint64_t bytes) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &bytes, 8);
  return text;
}

class Safetensors : public testing::Test {
 protected:
  TensorFile read(std::string_view header, std::string_view data = "") {
    write_bytes(file_, length_of(header.size()) + std::string(header) + std::string(data));
    return read_safetensors(file_);
  }
  void expect_error(std::string_view header, std::string_view data, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(read(header, data), kind, file_.string() + message);
  }
  void expect_bad(std::string_view header, std::string_view data, const std::string& message) {
    expect_error(header, data, ErrorKind::bad_file, message);
  }
  void expect_bad_file(std::string_view bytes, const std::string& message) {
    write_bytes(file_, bytes);
    EXPECT_ERROR(read_safetensors(file_), ErrorKind::bad_file, file_.string() + message);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "x.safetensors";
};

TEST_F(Safetensors, ViewsBorrowFromTheMapping) {
  const std::int32_t values[] = {1, -2, 3, 4, 5, 6};
  const std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  // 8 bytes of length and 104 of header: the data is aligned.
  std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}})";
  header.resize(104, ' ');
  const TensorFile file = read(header, data);
  ASSERT_EQ(file.tensors.size(), 1u);
  const TensorView& view = file.tensors.at("a");
  EXPECT_EQ(view.dtype, DType::i32);
  EXPECT_EQ(view.shape, (Shape{2, 3}));
  EXPECT_EQ(view.strides, (Shape{3, 1}));
  EXPECT_EQ(std::memcmp(view.data, values, sizeof(values)), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 4096, 112u);  // of the mapped page, not a copy
}

TEST_F(Safetensors, EveryDTypeAndEmptyShapes) {
  const std::string data("\0\0\x80\x3f\0\x3c\x80\x3f\1\0", 10);
  const TensorFile file = read(R"({"f":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                               R"("h":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
                               R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[6,8]},)"
                               R"("y":{"dtype":"BOOL","shape":[2,1],"data_offsets":[8,10]},)"
                               R"("none":{"dtype":"I64","shape":[3,0],"data_offsets":[10,10]}})",
                               data);
  EXPECT_EQ(*file.tensors.at("f").as<float>(), 1.0f);
  EXPECT_EQ(*file.tensors.at("h").as<std::uint16_t>(), 0x3c00);
  EXPECT_EQ(*file.tensors.at("b").as<std::uint16_t>(), 0x3f80);
  EXPECT_EQ(*file.tensors.at("y").as<std::uint8_t>(), 1);
  EXPECT_EQ(element_count(file.tensors.at("none").shape), 0);
}

TEST_F(Safetensors, UnalignedTensorsAreCopied) {
  std::string header = R"({"f":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (int spaces = 0; spaces < 4; ++spaces, header += ' ') {
    const float values[] = {1.5f, -2.5f};
    const TensorFile file = read(header, std::string(reinterpret_cast<const char*>(values), 8));
    const TensorView& view = file.tensors.at("f");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 4, 0u);
    EXPECT_EQ(std::memcmp(view.data, values, 8), 0);
  }
}

TEST_F(Safetensors, NoTensors) {
  EXPECT_TRUE(read("{}").tensors.empty());
  expect_bad("{}", "x", ": bytes 0 to 1 after the header belong to no tensor");
}

TEST_F(Safetensors, RefusesFilesThatAreNone) {
  EXPECT_ERROR(read_safetensors(folder_ / "none"), ErrorKind::bad_file,
               "cannot read " + (folder_ / "none").string() + ": No such file or directory");
  EXPECT_ERROR(read_safetensors(folder_.path()), ErrorKind::bad_file,
               "cannot read " + folder_.path().string() + ": it is a folder; accepted: a regular file");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read_safetensors(folder_ / "pipe"), ErrorKind::bad_file,
               "cannot read " + (folder_ / "pipe").string() + ": it is a pipe; accepted: a regular file");
}

TEST_F(Safetensors, RefusesHeaderLengths) {
  expect_bad_file("", ": 0 bytes; a safetensors file begins with 8 bytes of header length");
  expect_bad_file("abc", ": 3 bytes; a safetensors file begins with 8 bytes of header length");
  expect_bad_file(length_of(1'000'000'000) + "{}", ": header of 1000000000 bytes; accepted: at most 100000000");
  expect_bad_file(length_of(~0ull) + "{}", ": header of 18446744073709551615 bytes; accepted: at most 100000000");
  expect_bad_file(length_of(3) + "{}", ": header of 3 bytes in a file of 10; is it truncated?");
}

TEST_F(Safetensors, RefusesBrokenHeaders) {
  expect_bad("", "", ": header: empty; accepted: JSON");
  expect_bad(R"({"a":)", "", ": header: not valid JSON at byte 5 of 5");
  expect_bad("{\"\xff\":1}", "", ": header: not valid JSON at byte 3 of 7");
  expect_bad("[]", "", ": the header is not an object that begins with '{' in byte 8");
  expect_bad(" {}", "", ": the header is not an object that begins with '{' in byte 8");
  expect_bad(std::string(100'000, '['), "", ": header: JSON nested deeper than 3 levels");
  expect_bad(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{}})", "",
             ": header: the name 'a' appears twice");
  expect_bad(R"({"a":[]})", "", ": tensor 'a': []; accepted: an object");
  expect_bad(R"({"a":{"shape":[0],"data_offsets":[0,0]}})", "", ": tensor 'a': 'dtype' is missing");
  expect_bad(R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", "", ": tensor 'a': 'shape' is missing");
  expect_error(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"crc":1}})", "", ErrorKind::unsupported,
               ": tensor 'a': 'crc' is not understood; accepted: dtype, shape, data_offsets");
}

TEST_F(Safetensors, RefusesTooManyValues) {
  std::string header = R"({"a":{"dtype":"F32","shape":[0)";
  for (int i = 0; i < 4'000'000; ++i) header += ",1";
  expect_bad(header + "]}}", "", ": header: JSON of more than 4000000 values");
}

// Beside tensors that are read, of any dtype of the format.
TEST_F(Safetensors, KeepsTheNamesOfOtherDTypes) {
  const TensorFile file = read(R"({"c":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},)"
                               R"("e":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[8,10]},)"
                               R"("f":{"dtype":"F6_E2M3","shape":[3,4],"data_offsets":[10,19]},)"
                               R"("h":{"dtype":"F4","shape":[2,3],"data_offsets":[19,22]}})",
                               std::string(22, 'x'));
  EXPECT_TRUE(file.tensors.empty());
  ASSERT_EQ(file.others.size(), 4u);
  EXPECT_EQ(file.others.at("h"), "F4");
  expect_bad(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", "12",
             ": tensor 'w': shape [3] of F4, 4 bits each, ends within a byte");
  expect_bad(R"({"w":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,4]}})", "1234",
             ": tensor 'w': shape [4] of F6_E3M2 has 3 bytes, its data_offsets [0, 4] have 4");
}

TEST_F(Safetensors, RefusesDTypes) {
  expect_bad(R"({"w":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}})", "1234567812345678",
             ": tensor 'w': dtype F128; accepted: F32, F16, BF16, I32, I64, BOOL, F64, C64, F8_E4M3, F8_E5M2, "
             "F8_E4M3FNUZ, F8_E5M2FNUZ, F8_E8M0, F6_E2M3, F6_E3M2, F4, U8, I8, U16, I16, U32, U64");
  expect_bad(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,8]}})", "12345678",
             ": tensor 'w': shape [4] of U8 has 4 bytes, its data_offsets [0, 8] have 8");
  expect_bad(R"({"w":{"dtype":4,"shape":[1],"data_offsets":[0,8]}})", "12345678",
             ": tensor 'w': 'dtype' is 4; accepted: a string");
  expect_bad(R"({"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", std::string("\0\1\2", 3),
             ": tensor 'w': element 2 is 2; accepted: 0, 1");
}

TEST_F(Safetensors, RefusesShapesAndOffsets) {
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  expect_bad(tensor("[-1]", "[0,4]"), "1234",
             ": tensor 'w': 'shape' is [-1]; accepted: an array of integers from 0 to 2^63 - 1");
  expect_bad(tensor("[1.0]", "[0,4]"), "1234",
             ": tensor 'w': 'shape' is [1.0]; accepted: an array of integers from 0 to 2^63 - 1");
  expect_bad(tensor("4", "[0,4]"), "1234",
             ": tensor 'w': 'shape' is 4; accepted: an array of integers from 0 to 2^63 - 1");
  expect_bad(tensor("[9223372036854775808]", "[0,4]"), "1234",
             ": tensor 'w': 'shape' is [9223372036854775808]; accepted: an array of integers from 0 to 2^63 - 1");
  expect_bad(tensor("[4611686018427387904,2]", "[0,4]"), "1234",
             ": tensor 'w': shape [4611686018427387904, 2] has more than 2^63 - 1 elements");
  expect_bad(tensor("[0,4611686018427387904,2]", "[0,0]"), "",
             ": tensor 'w': shape [0, 4611686018427387904, 2] has more than 2^63 - 1 elements");
  expect_bad(tensor("[4611686018427387904]", "[0,4]"), "1234",
             ": tensor 'w': shape [4611686018427387904] of F32 has more than 2^63 - 1 bytes");
  expect_bad(tensor("[1]", "[4,0]"), "1234",
             ": tensor 'w': 'data_offsets' is [4,0]; accepted: [begin, end], begin <= end");
  expect_bad(tensor("[1]", "[0]"), "1234", ": tensor 'w': 'data_offsets' is [0]; accepted: [begin, end], begin <= end");
  expect_bad(tensor("[2]", "[0,4]"), "1234",
             ": tensor 'w': shape [2] of F32 has 8 bytes, its data_offsets [0, 4] have 4");
  expect_bad(tensor("[2]", "[0,8]"), "1234", ": tensor 'w' ends at byte 8 of 4 bytes of data; is the file truncated?");
}

TEST_F(Safetensors, RefusesOverlapAndHoles) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F16","shape":[2],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F16","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(read(two("[4,8]", "[0,4]"), "12345678").tensors.size(), 2u);
  expect_bad(two("[0,4]", "[2,6]"), "123456", ": tensor 'b' begins at byte 2 and overlaps tensor 'a', which ends at 4");
  expect_bad(two("[0,4]", "[0,4]"), "1234", ": tensor 'b' begins at byte 0 and overlaps tensor 'a', which ends at 4");
  expect_bad(two("[0,4]", "[6,10]"), "1234567890",
             ": bytes 4 to 6 between tensor 'a' and tensor 'b' belong to no tensor");
  expect_bad(two("[1,5]", "[5,9]"), "123456789",
             ": bytes 0 to 1 between the header and tensor 'a' belong to no tensor");
  expect_bad(two("[0,4]", "[4,8]"), "1234567890", ": bytes 8 to 10 after tensor 'b' belong to no tensor");
}

// Every truncation and every changed byte is refused or read, and never more than that (the sanitizers watch).
TEST_F(Safetensors, SurvivesDamage) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}})";
  const std::string whole = length_of(header.size()) + header + std::string(9, '\0');
  const auto read_or_refuse = [&](const std::string& bytes) {
    write_bytes(file_, bytes);
    try {
      for (const auto& [name, view] : read_safetensors(file_).tensors) EXPECT_LE(element_count(view.shape), 9);
      return true;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
      return false;
    }
  };
  EXPECT_TRUE(read_or_refuse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read_or_refuse(whole.substr(0, size))) << size;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char byte : {'\0', '\x7f', '\xff', '9', '"', '['}) {
      std::string changed = whole;
      changed[at] = byte;
      read_or_refuse(changed);
    }
}

}  // namespace
}  // namespace stof
