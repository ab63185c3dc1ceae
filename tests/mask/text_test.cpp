// SPDX-License-Identifier: Apache-2.0
// Text and tree: what parses to what, what is equal, how it prints, arrays from files.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/mask/expression.h"
#include "src/tensor/npy.h"
#include "tests/expect_error.h"
#include "tests/mask/naive.h"

namespace stof {
namespace {

TEST(Text, NotBindsTightestThenAndThenOr) {
  EXPECT_EQ(parse("!causal & window(2) | sink(1)"), ((!causal()) & window(2)) | sink(1));
  EXPECT_EQ(parse("sink(1) | window(2) & !causal"), sink(1) | (window(2) & !causal()));
  EXPECT_EQ(parse("!(causal & (window(2) | sink(1)))"), !(causal() & (window(2) | sink(1))));
  EXPECT_EQ(parse(" \n heads ( 0 - 1 :causal ,*: ! all )\t"), heads({{0, 1, causal()}}, !all()));
}

TEST(Text, EveryFunctionIsItsTerm) {
  EXPECT_EQ(parse("window(3)"), window(3, 3));
  EXPECT_EQ(parse("global([2,0,1])"), global_tokens(3));
  EXPECT_EQ(parse("global([5,0,5])"), global_tokens({0, 5}));
  EXPECT_EQ(parse("segments([[4,8,0,8,'causal'],[0,4,0,4,full]])"),
            segments({{0, 4, 0, 4, false}, {4, 8, 0, 8, true}}));
  EXPECT_EQ(parse("random_blocks(8,2,18446744073709551615)"), random_blocks(8, 2, ~std::uint64_t{0}));
  EXPECT_EQ(parse("tree([-1,0,1])"), tree({-1, 0, 1}));
  EXPECT_EQ(parse("natten(3,5,3,1)"), natten(3, 5, 3, 1));
  EXPECT_EQ(parse("batch(1: none, 0: all)"), batch({{0, 0, all()}, {1, 1, none()}}));
  EXPECT_EQ(parse("bigbird(64,3,2,3,1)"), bigbird(64, 3, 2, 3, 1));
}

TEST(Text, Prints) {
  const auto printed = [](const char* text) { return parse(text).text(); };
  EXPECT_EQ(printed("window(2,0)|(causal&!(sink(1)|all))"), "!(all | sink(1)) & causal | window(2,0)");
  EXPECT_EQ(printed("longformer(5,2)"), "global(2) | window(5)");
  EXPECT_EQ(printed("global([9,0,1])"), "global([0,1,9])");
  EXPECT_EQ(printed("heads(4: none,0-3: causal&window(1),*: all)"), "heads(0-3: causal & window(1), 4: none, *: all)");
  EXPECT_EQ(printed("segments([[0,4,0,4,\"full\"]])"), "segments([[0,4,0,4,\"full\"]])");
}

TEST(Equality, IsThatOfTheNormalisedTree) {
  const Mask a = causal(), b = window(4), c = sink(2);
  EXPECT_EQ((a & b) & c, c & (b & a));
  EXPECT_EQ(a | b | a, b | a);
  EXPECT_EQ(a & a, a);
  EXPECT_EQ(!!a, a);
  EXPECT_EQ(!!!(a | b), !(b | a));
  EXPECT_EQ(((a & b) | c).fingerprint(), parse("sink(2) | window(4) & causal").fingerprint());
  EXPECT_FALSE((a & b) == (a | b));
  EXPECT_NE((a & b).fingerprint(), (a | b).fingerprint());
  EXPECT_EQ(a.fingerprint().size(), 32u);
}

TEST(Equality, OfArraysIsThatOfTheirContent) {
  Tensor x(DType::boolean, {2, 3}), y(DType::boolean, {2, 3});
  std::fill_n(x.as<std::uint8_t>(), 6, std::uint8_t{1});
  std::fill_n(y.as<std::uint8_t>(), 6, std::uint8_t{1});
  EXPECT_EQ(bits(x.view()), bits(y.view()));
  const Mask before = bits(y.view());
  y.as<std::uint8_t>()[4] = 0;
  EXPECT_FALSE(bits(y.view()) == before);
  EXPECT_EQ(bits(x.view()), before) << "the array is copied";
  TensorView reshaped = x.view();
  reshaped.shape = {3, 2};
  reshaped.strides = {2, 1};
  EXPECT_FALSE(bits(reshaped) == bits(x.view()));
}

class TextFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "stof-mask-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Tensor save(const std::string& name, DType dtype, const Shape& shape, int value) {
    Tensor tensor(dtype, shape);
    std::fill_n(static_cast<std::uint8_t*>(tensor.data()), tensor.bytes(), static_cast<std::uint8_t>(value));
    write_npy(folder_ / name, tensor.view());
    return tensor;
  }

  std::filesystem::path folder_;
};

TEST_F(TextFiles, ArraysAreReadFromTheFolder) {
  const Tensor array = save("m.npy", DType::boolean, {4, 6}, 1), ids = save("ids.npy", DType::i32, {6}, 0);
  const Tensor table = save("a table, (1).npy", DType::boolean, {3, 3}, 1);
  EXPECT_EQ(parse("bits(m.npy)", folder_), bits(array.view()));
  EXPECT_EQ(parse("document_ids( \"ids.npy\" )", folder_), document_ids(ids.view()));
  EXPECT_EQ(parse("blocks(2,'a table, (1).npy')", folder_), blocks(2, table.view()));
  for (const char* text : {"bits(m.npy)", "document_ids(ids.npy) | blocks(2,\"a table, (1).npy\")"}) {
    const Mask mask = parse(text, folder_);
    EXPECT_EQ(parse(mask.text(), folder_), mask);
  }
  EXPECT_EQ(parse("blocks(2, 'a table, (1).npy')", folder_).text(), "blocks(2,\"a table, (1).npy\")");
  EXPECT_EQ(parse("bits(m.npy)", folder_).fingerprint(), bits(array.view()).fingerprint());
}

TEST_F(TextFiles, InMemoryArraysPrintTheirFingerprint) {
  const Tensor array = save("m.npy", DType::boolean, {1, 1}, 1);
  const std::string text = (causal() & bits(array.view())).text();
  const std::string name = text.substr(5, 33);
  EXPECT_EQ(text, "bits(" + name + ") & causal");
  EXPECT_EQ(name[0], '#');
  EXPECT_ERROR(
      parse(text), ErrorKind::invalid_argument,
      "mask: array " + name +
          " was held in memory when this mask was printed; save it as .npy and write the file's name here\n  " + text +
          "\n       ^");
}

TEST_F(TextFiles, ANameIsReadToItsEnd) {
  save("m.npy", DType::boolean, {1, 1}, 1);
  EXPECT_ERROR(parse(std::string("bits(m.npy\0s)", 13), folder_), ErrorKind::invalid_argument,
               "mask: the name of an .npy file with a NUL byte in it\n  bits(m.npy s)\n       ^");
}

TEST_F(TextFiles, ArraysThatDoNotFitTheExtentAreNamed) {
  save("m.npy", DType::boolean, {3, 4}, 1);
  save("ids.npy", DType::i32, {3}, 0);
  save("table.npy", DType::boolean, {4, 4}, 1);
  const auto expect_misfit = [&](const char* text, const std::string& message) {
    EXPECT_ERROR(BoundMask(parse(text, folder_), {.queries = 4, .keys = 4}), ErrorKind::invalid_argument, message);
  };
  expect_misfit(
      "causal & bits(m.npy)",
      "bits: the array 'm.npy' is [3, 4]; accepted: [4, 4], [1, 4, 4] or [1, 1, 4, 4], where 1 fits every size");
  expect_misfit("document_ids(ids.npy)",
                "document_ids: the array 'ids.npy' is [3]; accepted: [4] or [1, 4], where 1 fits every batch");
  expect_misfit("blocks(2,table.npy)", "blocks: the array 'table.npy' is [4, 4]; accepted: [2, 2] or [1, 2, 2]");
}

TEST_F(TextFiles, FilesThatAreNoArrays) {
  std::ofstream(folder_ / "text.npy") << "causal";
  std::ofstream(folder_ / "empty.npy").flush();
  std::filesystem::create_directory(folder_ / "folder.npy");
  save("m.npy", DType::boolean, {4, 6}, 1);
  save("two.npy", DType::boolean, {4, 6}, 2);
  std::filesystem::resize_file(folder_ / "m.npy", std::filesystem::file_size(folder_ / "m.npy") - 1);
  const auto expect_unread = [&](const std::string& name, const std::string& why) {
    EXPECT_ERROR(parse("causal & bits(" + name + ")", folder_), ErrorKind::bad_file,
                 "mask: cannot read '" + (folder_ / name).string() + "': " + why + "\n  causal & bits(" + name +
                     ")\n                ^");
  };
  expect_unread("text.npy", "it is not an .npy file: it is shorter than the magic and length");
  expect_unread("empty.npy", "it is empty; accepted: an .npy file, as numpy.save writes it");
  expect_unread("folder.npy", "it is a folder; accepted: a regular .npy file");
  expect_unread("m.npy", "bool [4, 6] needs 24 bytes of data, but it has 23");
  expect_unread("two.npy", "element 0 of its bool data is the byte 2; accepted: 0 and 1");
}

TEST_F(TextFiles, BadArrays) {
  save("f.npy", DType::f32, {4, 6}, 0);
  save("flat.npy", DType::boolean, {4}, 1);
  save("long.npy", DType::i64, {4}, 0);
  save("wide.npy", DType::boolean, {2, 3}, 1);
  EXPECT_ERROR(parse("causal & bits(f.npy)", folder_), ErrorKind::invalid_argument,
               "mask: bits: the array is f32; accepted: bool\n  causal & bits(f.npy)\n                ^");
  EXPECT_ERROR(parse("bits(flat.npy)", folder_), ErrorKind::invalid_argument,
               "mask: bits: the array is [4]; accepted: [N, M], [H, N, M] or [B, H, N, M]\n"
               "  bits(flat.npy)\n       ^");
  EXPECT_ERROR(parse("document_ids(long.npy)", folder_), ErrorKind::invalid_argument,
               "mask: document_ids: the array is i64; accepted: i32\n  document_ids(long.npy)\n               ^");
  EXPECT_ERROR(parse("document_ids(f.npy)", folder_), ErrorKind::invalid_argument,
               "mask: document_ids: the array is f32; accepted: i32\n  document_ids(f.npy)\n               ^");
  EXPECT_ERROR(parse("blocks(8,wide.npy)", folder_), ErrorKind::invalid_argument,
               "mask: blocks: the array is [2, 3]; accepted: [R, C] or [H, R, C] with R = C\n"
               "  blocks(8,wide.npy)\n           ^");
  EXPECT_ERROR(parse("bits(none.npy)", folder_), ErrorKind::bad_file,
               "mask: cannot read '" + (folder_ / "none.npy").string() +
                   "': No such file or directory\n  bits(none.npy)\n       ^");
}

}  // namespace
}  // namespace stof
