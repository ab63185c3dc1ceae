// SPDX-License-Identifier: Apache-2.0
// Opening a file that is to be read, whatever a user has named.
#pragma once
#include <filesystem>

namespace stof {

// A descriptor, or -1 with errno set. A pipe that nobody writes to is opened at once, for the caller to refuse; a file
// that another program has a lease on, as a file server has, once that is given back.
int open_to_read(const std::filesystem::path& path);

}  // namespace stof
