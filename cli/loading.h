// SPDX-License-Identifier: Apache-2.0
// Models from their folders: many weights, or a slow disk, are said on stderr.
#pragma once
#include <filesystem>

#include "src/model/model.h"
#include "stof/session.h"

namespace stof::cli {

inline constexpr const char* kLoading = "loading the model";  // what is said

Model load_model(const std::filesystem::path& folder);
Session load_session(const std::filesystem::path& folder, const SessionOptions& options);

}  // namespace stof::cli
