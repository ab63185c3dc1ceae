// SPDX-License-Identifier: Apache-2.0
// A checkpoint of tests/data/families with files of its own in place of some, and the others as they are.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/runtime/families.h"
#include "tests/temporary_folder.h"

namespace stof {

class ChangedFamily {
 public:
  explicit ChangedFamily(const std::string& family) {
    for (const auto& entry : std::filesystem::directory_iterator(family_folder(family)))
      std::filesystem::create_symlink(entry.path(), file(entry.path().filename().string()));
  }
  // With other words in its config.json.
  ChangedFamily(const std::string& family, const nlohmann::json& words) : ChangedFamily(family) {
    nlohmann::json config = nlohmann::json::parse(read_bytes(file("config.json")));
    config.update(words);
    replace("config.json", config.dump());
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  void replace(const std::string& name, const std::string& bytes) {
    std::filesystem::remove(file(name));
    write_bytes(file(name), bytes);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace stof
