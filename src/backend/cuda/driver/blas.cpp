// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/blas.h"

#include <dlfcn.h>

#include <array>
#include <memory>

#include "src/base/error.h"
#include "src/base/library_places.h"

namespace stof::cuda {
namespace {

constexpr const char* kMissing =
    "cuBLASLt (libcublasLt.so.13 or .12) is missing, which models on a GPU multiply matrices with; install a CUDA "
    "toolkit, or `pip install nvidia-cublas` and put its folder lib on LD_LIBRARY_PATH";

// Either the library or why there is none.
struct Loaded {
  std::unique_ptr<const Blas> blas;
  std::string missing;
};

Loaded load() {
  Loaded loaded{.blas = nullptr, .missing = kMissing};
  for (const std::filesystem::path& place : blas_places()) {
    // Never unloaded: it keeps objects of the driver.
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    try {
      loaded.blas = std::make_unique<const Blas>(library);
      loaded.missing.clear();
      break;
    } catch (const Error& too_old) {
      loaded.missing = too_old.what();
    }
  }
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

void* load_blas_symbol(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr)
    fail(ErrorKind::device, "this cuBLASLt is too old: it lacks {}; accepted: that of CUDA 12 or later", name);
  return symbol;
}

const Blas& blas() {
  const Loaded& found = loaded();
  if (!found.blas) fail(ErrorKind::device, "{}", found.missing);
  return *found.blas;
}

std::string missing_blas() { return loaded().missing; }

std::string blas_version() {
  // 10000 * major + 100 * minor + patch, since cuBLAS 11.
  const auto version = reinterpret_cast<std::size_t (*)()>(load_blas_symbol(blas().library, "cublasLtGetVersion"))();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<std::filesystem::path> blas_places() {
  constexpr std::array<std::string_view, 2> kNames{"libcublasLt.so.13", "libcublasLt.so.12"};
  return library_places(kNames, "cublas");
}

void fail_blas_call(const char* name, BlasStatus status) {
  using StatusText = const char*(BlasStatus);
  auto* const text = reinterpret_cast<StatusText*>(load_blas_symbol(blas().library, "cublasLtGetStatusString"));
  fail(ErrorKind::device, "{}: {} (cuBLAS status {})", name, text(status), status);
}

}  // namespace stof::cuda
