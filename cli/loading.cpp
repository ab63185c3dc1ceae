// SPDX-License-Identifier: Apache-2.0
#include "cli/loading.h"

#include "cli/waiting.h"

namespace stof::cli {

Model load_model(const std::filesystem::path& folder) {
  const Waiting waiting(kLoading);
  return read_model(folder);
}

Session load_session(const std::filesystem::path& folder, const SessionOptions& options) {
  const Waiting waiting(kLoading);
  return Session::load(folder, options);
}

}  // namespace stof::cli
