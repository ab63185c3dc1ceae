// SPDX-License-Identifier: Apache-2.0
// Where tests find what they read: data/, tests/data/, fetched checkpoints.
#pragma once
#include <filesystem>

namespace stof {

// The checkout that the test was built in; on a machine that has not got it, where the test was started.
inline std::filesystem::path source_folder() {
  return std::filesystem::exists(STOF_SOURCE_DIR) ? std::filesystem::path(STOF_SOURCE_DIR)
                                                  : std::filesystem::current_path();
}

}  // namespace stof
