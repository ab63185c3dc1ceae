// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/compiler.h"

#include "src/base/env.h"
#include "src/base/error.h"
#include "src/codegen/source_closure.h"

namespace stof {

CompilerOptions default_compiler_options() {
  return {.jit = Jit::on, .cache = {.folder = cache_folder() / "kernels", .log = {}}, .nvrtc = find_nvrtc()};
}

std::string Compiler::missing() const {
  if (options_.jit == Jit::off) return "run-time compilation is off";
  if (options_.nvrtc == nullptr) return "NVRTC (libnvrtc.so.13 or .12) is missing";
  return {};
}

std::string Compiler::cubin(std::string_view source, std::string_view target) const {
  // Without a compiler nothing says which compiler's entry to take: the cache belongs to the compiler.
  if (const std::string why_not = missing(); !why_not.empty())
    fail(ErrorKind::unsupported, "a kernel for {} is not part of this build and cannot be compiled: {}", target,
         why_not);
  const std::lock_guard lock(compiling_);
  CompileRequest request{.source = std::string(source), .target = std::string(target), .headers = kernel_headers()};
  const KernelKey key{.source = source_closure(source, request.headers),
                      .compiler = options_.nvrtc->version(),
                      .options = {},
                      .target = request.target,
                      .library_version = STOF_VERSION};
  if (std::optional<std::string> kept = cache_.find(key)) return *std::move(kept);
  std::string made = options_.nvrtc->compile(request);
  cache_.publish(key, made);
  return made;
}

std::string_view embedded_cubin(std::string_view name, std::string_view target) {
  for (const EmbeddedFile& file : kernel_binaries())
    if (file.name.size() == name.size() + 1 + target.size() && file.name.starts_with(name) &&
        file.name.ends_with(target) && file.name[name.size()] == '.')
      return file.bytes;
  return {};
}

}  // namespace stof
