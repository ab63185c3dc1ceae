// SPDX-License-Identifier: Apache-2.0
// Small files of ours, read at once: plans, kernels, logs. Whoever may write into a cache folder may put a folder, a
// pipe or a device under such a name; those are never opened, since reading one throws, waits or does not end. Nor is a
// file larger than any of ours.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace stof {

inline constexpr std::uintmax_t kMostWholeFile = std::uintmax_t{256} << 20;

// Nothing where there is no regular file of at most `most` bytes, or it cannot be read.
std::optional<std::string> read_whole_file(const std::filesystem::path& path, std::uintmax_t most = kMostWholeFile);

}  // namespace stof
