// SPDX-License-Identifier: Apache-2.0
#include "src/base/library_places.h"

#include <dlfcn.h>
#include <link.h>

namespace stof {
namespace fs = std::filesystem;
namespace {

fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_file), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failed;
  const fs::path file = fs::canonical(info.dli_fname, failed);
  return failed ? fs::path() : file.parent_path();
}

}  // namespace

std::vector<fs::path> library_places(std::span<const std::string_view> names, std::string_view package) {
  std::vector<fs::path> places(names.begin(), names.end());
  const auto add = [&](const fs::path& folder) {
    for (const std::string_view name : names) places.push_back(folder / name);
  };
  add("/usr/local/cuda/lib64");
  fs::path folder = own_folder();
  add(folder / "../nvidia/cu13/lib");  // installed by pip beside this package
  add(folder / "../nvidia" / package / "lib");
  for (int up = 0; up < 6 && folder.has_relative_path(); ++up, folder = folder.parent_path())
    add(folder / ".toolchain/cuda/nvidia/cu13/lib");
  return places;
}

fs::path library_file(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? fs::path(map->l_name) : fs::path();
}

}  // namespace stof
