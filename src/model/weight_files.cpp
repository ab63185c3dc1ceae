// SPDX-License-Identifier: Apache-2.0
#include "src/model/weight_files.h"

#include <vector>

#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/file_names.h"
#include "src/model/json.h"

namespace stof {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kOneFile = "model.safetensors";

using Index = std::map<std::string, std::string, std::less<>>;  // tensor to shard

Index read_index(const fs::path& file) {
  const json tree = read_json(file);
  const JsonObject root(tree, file.string());
  const JsonObject map = root.object("weight_map");
  Index index;
  for (const auto& [tensor, shard] : root.at("weight_map").items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (!is_entry_name(name)) map.refuse(tensor, fmt::format("a file {}", kEntryName));
    index.emplace(tensor, name);
  }
  return index;
}

class Shards {
 public:
  Shards(const fs::path& folder, const Index& index) : folder_(folder), index_(index) {
    for (const auto& [tensor, shard] : index) ++tensors_of_[shard];
  }

  TensorFile read() {
    for (const auto& [shard, count] : tensors_of_) {
      if (!is_there(folder_ / shard))
        fail(ErrorKind::bad_file, "{}: the shard '{}' is missing, which has {} of {} tensors", index_file(), shard,
             count, index_.size());
      add(shard, read_safetensors(folder_ / shard));
    }
    for (const auto& [tensor, shard] : index_) {
      const auto found = shard_of_.find(tensor);
      if (found == shard_of_.end())
        fail(ErrorKind::bad_file, "{}: tensor '{}' is not in '{}', where the index has it", index_file(), tensor,
             shard);
      if (found->second != shard)
        fail(ErrorKind::bad_file, "{}: tensor '{}' is in '{}'; the index has it in '{}'", index_file(), tensor,
             found->second, shard);
    }
    all_.mapping = std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(mappings_));
    return std::move(all_);
  }

 private:
  std::string index_file() const { return (folder_ / file_names::kWeightIndex).string(); }

  void add(const std::string& shard, TensorFile file) {
    const auto own = [&](const std::string& tensor) {
      const auto [known, added] = shard_of_.try_emplace(tensor, shard);
      if (!added)
        fail(ErrorKind::bad_file, "{}: tensor '{}' is in both '{}' and '{}'", index_file(), tensor, known->second,
             shard);
    };
    for (const auto& [tensor, view] : file.tensors) own(tensor);
    for (const auto& [tensor, dtype] : file.others) own(tensor);
    all_.tensors.merge(file.tensors);
    all_.others.merge(file.others);
    mappings_.push_back(std::move(file.mapping));
  }

  const fs::path& folder_;
  const Index& index_;
  std::map<std::string, std::size_t> tensors_of_;
  std::map<std::string, std::string, std::less<>> shard_of_;  // as the shards themselves have it
  TensorFile all_;
  std::vector<std::shared_ptr<const void>> mappings_;
};

}  // namespace

WeightFiles read_weight_files(const fs::path& folder) {
  if (is_there(folder / kOneFile)) return {.file = kOneFile, .tensors = read_safetensors(folder / kOneFile)};
  if (!is_there(folder / file_names::kWeightIndex))
    fail(ErrorKind::bad_file, "{}: neither {} nor {}; weights in other files (pytorch_model.bin) are not read",
         folder.string(), kOneFile, file_names::kWeightIndex);
  const Index index = read_index(folder / file_names::kWeightIndex);
  return {.file = std::string(file_names::kWeightIndex), .tensors = Shards(folder, index).read()};
}

}  // namespace stof
