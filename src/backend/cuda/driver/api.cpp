// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/api.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <memory>

#include "src/base/error.h"

namespace stof::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// Either the driver or why there is none.
struct Loaded {
  std::unique_ptr<const Driver> driver;
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  // Never unloaded: other libraries of the process may hold the driver's objects until the end.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.missing = fmt::format("the NVIDIA driver is missing ({} cannot be loaded)", kLibrary);
    return loaded;
  }
  try {
    auto driver = std::make_unique<const Driver>(library);
    int count = 0;
    Status status = driver->init.attempt(0);
    if (status == kSuccess) status = driver->device_count.attempt(&count);
    const char* text = nullptr;
    if (status != kSuccess && driver->error_text.attempt(status, &text) != kSuccess) text = nullptr;
    if (status != kSuccess)
      loaded.missing = fmt::format("the NVIDIA driver finds no device: {} (CUDA error {})",
                                   text != nullptr ? text : "unknown error", status);
    else if (count == 0) loaded.missing = "the NVIDIA driver finds no device";
    else loaded.driver = std::move(driver);
  } catch (const Error& too_old) {
    loaded.missing = too_old.what();
  }
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

void* load_symbol(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr)
    fail(ErrorKind::device, "the NVIDIA driver is too old: it lacks {}; accepted: 525 (CUDA 12.0) or later", name);
  return symbol;
}

const Driver& driver() {
  const Loaded& found = loaded();
  if (!found.driver) fail(ErrorKind::device, "{}", found.missing);
  return *found.driver;
}

bool driver_is_loaded() {
  // Looking for a library that is not there searches folders: done again only after something was loaded.
  static std::atomic<unsigned long long> looked_after{0};
  unsigned long long loads = 0;
  const auto read_loads = [](dl_phdr_info* info, std::size_t, void* to) {
    *static_cast<unsigned long long*>(to) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(read_loads, &loads);
  if (loads == looked_after.load()) return false;
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    looked_after = loads;
    return false;
  }
  dlclose(library);  // ends this reference only
  return true;
}

std::string missing_driver() { return loaded().missing; }

void fail_call(const char* name, Status status) {
  const Driver& api = driver();
  const std::string_view memory = status == kOutOfMemory ? "out of memory: " : "";
  const char *code = nullptr, *text = nullptr;
  if (api.error_name.attempt(status, &code) != kSuccess || api.error_text.attempt(status, &text) != kSuccess)
    fail(ErrorKind::device, "{}{}: CUDA error {}", memory, name, status);
  fail(ErrorKind::device, "{}{}: {} ({})", memory, name, code, text);
}

}  // namespace stof::cuda
