// SPDX-License-Identifier: Apache-2.0
// What becomes of the config.json of a small checkpoint of tests/data/families that says something else.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "src/model/config.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace stof {

class ChangedConfig : public testing::Test {
 protected:
  using json = nlohmann::json;

  // "absent" takes a key away.
  ModelConfig read(const char* family, const json& changed = json::object()) {
    json tree = json::parse(
        read_bytes(std::filesystem::path(STOF_SOURCE_DIR) / "tests/data/families" / family / "config.json"));
    for (const auto& [key, value] : changed.items())
      if (value == "absent") tree.erase(key);
      else tree[key] = value;
    write_bytes(folder_ / "config.json", tree.dump());
    return read_config(folder_.path());
  }
  void expect(const char* family, const json& changed, ErrorKind kind, const std::string& message) {
    EXPECT_ERROR(read(family, changed), kind, (folder_ / "config.json").string() + message);
  }
  TemporaryFolder folder_;
};

// What layers see and by which angles, as text: "all 160000, 6 10000, ...".
inline std::string rotary_text(const ModelConfig& config) {
  std::string text;
  for (const RotaryLayer& layer : config.rotary)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", layer.reach ? std::to_string(*layer.reach) : "all",
                        layer.theta);
  return text;
}

}  // namespace stof
