// SPDX-License-Identifier: Apache-2.0
// Opening a file that is to be read, whatever a user has named.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace stof {

// A descriptor, or -1 with errno set. A pipe that nobody writes to is opened at once, for the caller to refuse; a file
// that another program has a lease on, as a file server has, once that is given back.
int open_to_read(const std::filesystem::path& path);

// What an error says of one that is no regular file, by st_mode: "it is a folder".
std::string_view kind_of_file(mode_t mode);

}  // namespace stof
