// SPDX-License-Identifier: Apache-2.0
#include "src/model/weight_files.h"

#include <gtest/gtest.h>

#include "src/model/json.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {
namespace {

using nlohmann::json;

class Shards : public testing::Test {
 protected:
  // A shard with one f32 of the given value under each name, but a U8 under names that begin with "buffer".
  void shard(const std::string& file, const std::map<std::string, float>& tensors) {
    json header = json::object();
    std::string data;
    for (const auto& [name, value] : tensors) {
      const bool buffer = name.starts_with("buffer");
      const std::size_t begin = data.size();
      if (buffer) data += '\1';
      else data.append(reinterpret_cast<const char*>(&value), 4);
      header[name] = {
          {"dtype", buffer ? "U8" : "F32"}, {"shape", json::array({1})}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    write_bytes(folder_ / file, std::string{static_cast<char>(text.size()), 0, 0, 0, 0, 0, 0, 0} + text + data);
  }
  void index(const json& weight_map) {
    write_bytes(folder_ / "model.safetensors.index.json",
                json{{"metadata", {{"total_size", 8}}}, {"weight_map", weight_map}}.dump());
  }
  WeightFiles read() { return read_weight_files(folder_.path()); }
  void expect(const std::string& message) {
    EXPECT_ERROR(read(), ErrorKind::bad_file, (folder_ / "model.safetensors.index.json").string() + ": " + message);
  }
  TemporaryFolder folder_;
};

TEST_F(Shards, AreReadAsOne) {
  shard("1.safetensors", {{"a", 1.f}, {"buffer", 0.f}});
  shard("2.safetensors", {{"b", 2.f}, {"beside", 3.f}});
  index({{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"buffer", "1.safetensors"}});
  const WeightFiles read_files = read();
  EXPECT_EQ(read_files.file, "model.safetensors.index.json");
  EXPECT_EQ(read_files.tensors.tensors.size(), 3u);
  EXPECT_EQ(*read_files.tensors.tensors.at("a").as<float>(), 1.f);
  EXPECT_EQ(*read_files.tensors.tensors.at("b").as<float>(), 2.f);
  EXPECT_EQ(*read_files.tensors.tensors.at("beside").as<float>(), 3.f);
  EXPECT_EQ(read_files.tensors.others, (std::map<std::string, std::string, std::less<>>{{"buffer", "U8"}}));
}

TEST_F(Shards, GiveWayToOneFile) {
  shard("model.safetensors", {{"a", 4.f}});
  index({{"a", "1.safetensors"}});
  const WeightFiles read_files = read();
  EXPECT_EQ(read_files.file, "model.safetensors");
  EXPECT_EQ(*read_files.tensors.tensors.at("a").as<float>(), 4.f);
}

TEST_F(Shards, OutliveTheirFiles) {
  shard("1.safetensors", {{"a", 1.f}});
  index({{"a", "1.safetensors"}});
  const WeightFiles read_files = read();
  std::filesystem::remove(folder_ / "1.safetensors");
  EXPECT_EQ(*read_files.tensors.tensors.at("a").as<float>(), 1.f);
}

TEST_F(Shards, AreAllThere) {
  shard("1.safetensors", {{"a", 1.f}});
  index({{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "2.safetensors"}});
  expect("the shard '2.safetensors' is missing, which has 2 of 3 tensors");
}

TEST_F(Shards, HaveWhatTheIndexSays) {
  shard("1.safetensors", {{"a", 1.f}});
  shard("2.safetensors", {{"b", 2.f}});
  index({{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "2.safetensors"}});
  expect("tensor 'c' is not in '2.safetensors', where the index has it");
  index({{"a", "2.safetensors"}, {"b", "1.safetensors"}});
  expect("tensor 'a' is in '1.safetensors'; the index has it in '2.safetensors'");
  shard("2.safetensors", {{"a", 2.f}, {"b", 2.f}});
  index({{"a", "1.safetensors"}, {"b", "2.safetensors"}});
  expect("tensor 'a' is in both '1.safetensors' and '2.safetensors'");
  shard("2.safetensors", {{"buffer", 2.f}});
  shard("1.safetensors", {{"buffer", 2.f}});
  index({{"a", "1.safetensors"}, {"buffer", "2.safetensors"}});
  expect("tensor 'buffer' is in both '1.safetensors' and '2.safetensors'");
}

TEST_F(Shards, AreFilesOfTheFolder) {
  const std::string accepted =
      "; accepted: a file in the same folder, named by at most 255 bytes, none a control character";
  for (const std::string& name : {std::string("../1.safetensors"), std::string("/1.safetensors"), std::string(".."),
                                  std::string("."), std::string(), std::string("a/b"),
                                  std::string("1.safetensors\0", 14), std::string("\x1b[31m"), std::string("\x7f")}) {
    index({{"a", name}});
    expect("weight_map: 'a' is " + excerpt(name) + accepted);
  }
  index({{"a", 1}});
  expect("weight_map: 'a' is 1" + accepted);
  index(json::array());
  expect("weight_map: []; accepted: an object");
  write_bytes(folder_ / "model.safetensors.index.json", "{}");
  expect("'weight_map' is missing");
}

// A name that the system cannot even look for is refused like any other, not thrown out of std::filesystem.
TEST_F(Shards, HaveNamesThatAFileCanHave) {
  index({{"a", std::string(255, 'n')}});
  expect("the shard '" + std::string(255, 'n') + "' is missing, which has 1 of 1 tensors");
  index({{"a", std::string(256, 'n')}});
  expect("weight_map: 'a' is \"" + std::string(59, 'n') +
         "...; accepted: a file in the same folder, named by at most 255 bytes, none a control character");
  const std::filesystem::path unreachable = folder_ / std::string(256, 'n');
  EXPECT_ERROR(read_weight_files(unreachable), ErrorKind::bad_file,
               "cannot read " + (unreachable / "model.safetensors").string() + ": File name too long");
}

TEST_F(Shards, AreNamedWhereTheyAreBroken) {
  write_bytes(folder_ / "1.safetensors", "");
  index({{"a", "1.safetensors"}});
  EXPECT_ERROR(
      read(), ErrorKind::bad_file,
      (folder_ / "1.safetensors").string() + ": 0 bytes; a safetensors file begins with 8 bytes of header length");
}

}  // namespace
}  // namespace stof
