// SPDX-License-Identifier: Apache-2.0
// What is under a path, and which names that stand in files may become one. The questions of std::filesystem throw its
// own exception where the system cannot answer (a name of 300 bytes, a folder that may not be searched, a ring of
// links); these throw bad_file.
#pragma once
#include <filesystem>
#include <string_view>

namespace stof {

bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// For names out of files: an entry of the folder that the file is in, and nothing outside it. At most 255 bytes, no
// separator, no control character (NUL would end the name early, others would be printed), neither "." nor "..".
bool is_entry_name(std::string_view name);
// What a message says of accepted names, behind "a file" or "a folder".
inline constexpr std::string_view kEntryName =
    "in the same folder, named by at most 255 bytes, none a control character";

}  // namespace stof
