// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/kernel_store.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/codegen/compiler.h"
#include "src/codegen/cubin_values.h"

namespace stof::cuda {
namespace {

std::string cubin_of(std::string_view name, std::string_view source, int arch) {
  // What uses nothing of 9.0 alone is built without the a.
  for (const std::string& target : {target_of(arch), fmt::format("sm_{}", arch)})
    if (const std::string_view built = embedded_cubin(name, target); !built.empty()) return std::string(built);
  return machine_compiler().cubin({.name = std::string(name),
                                   .source = std::string(source.empty() ? unit_source(name) : source),
                                   .target = target_of(arch)});
}

// What the driver is to load: machine code of the GPU, or PTX where that would not be what it counts as.
std::string code_of(std::string_view name, std::string_view source, const Gpu& gpu) {
  if (!gpu.counts_as_older) return cubin_of(name, source, gpu.caps.arch);
  return machine_compiler().cubin({.name = std::string(name),
                                   .source = std::string(source.empty() ? unit_source(name) : source),
                                   .target = fmt::format("compute_{}", gpu.caps.arch)});
}

struct Loaded {
  std::string code;  // the driver keeps pointing at it
  KernelLibrary library;
  std::string facts_cubin;  // where `code` is none
  Loaded(const Gpu& gpu, std::string_view unit, std::string_view source)
      : code(code_of(unit, source, gpu)), library(gpu, std::as_bytes(std::span(code))) {
    if (gpu.counts_as_older) facts_cubin = cubin_of(unit, source, gpu.caps.arch);
  }
  const std::string& cubin() const { return facts_cubin.empty() ? code : facts_cubin; }
};

using KernelName = std::tuple<int, std::string, std::string>;  // GPU, unit, entry point

// Names beside views of their parts, which std::less<> compares with GCC alone.
struct ByParts {
  using is_transparent = void;
  using Parts = std::tuple<int, std::string_view, std::string_view>;
  bool operator()(const Parts& a, const Parts& b) const { return a < b; }
};

// The lock is held to look and to put away, not to compile or to load: calls want kernels meanwhile that are there.
class Store {
 public:
  // `source` of a unit that the build may not have; empty for one that it has. Who wants one that another thread is
  // making waits for it.
  const Loaded& library(const Gpu& gpu, const std::string& unit, std::string_view source = {}) {
    Library& library = library_of(gpu, unit);
    std::call_once(library.made, [&] { library.loaded = std::make_unique<Loaded>(gpu, unit, source); });
    return *library.loaded;
  }

  // Calls look for theirs here: without making strings.
  const InstanceKernel* find(const Gpu& gpu, std::string_view unit, std::string_view entry) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(std::tuple(gpu.ordinal, unit, entry));
    return found == kernels_.end() ? nullptr : found->second.get();
  }

  const InstanceKernel& keep(const Gpu& gpu, std::string_view unit, std::string_view entry, InstanceKernel kernel) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<InstanceKernel>& place = kernels_[{gpu.ordinal, std::string(unit), std::string(entry)}];
    if (!place) place = std::make_unique<InstanceKernel>(kernel);
    return *place;
  }

 private:
  struct Library {
    std::once_flag made;
    std::unique_ptr<Loaded> loaded;
  };
  Library& library_of(const Gpu& gpu, const std::string& unit) {
    const std::lock_guard lock(mutex_);
    return libraries_[{gpu.ordinal, unit}];
  }

  std::mutex mutex_;
  std::map<std::pair<int, std::string>, Library> libraries_;
  std::map<KernelName, std::unique_ptr<InstanceKernel>, ByParts> kernels_;
};

// Never destroyed: the driver may be gone by then.
Store& store() {
  static Store* const once = new Store;
  return *once;
}

}  // namespace

std::string why_not_compiled(const Device& device) {
  const Compiler& compiler = machine_compiler();
  return device.ordinal == kDescribed ? compiler.missing_elsewhere() : compiler.missing();
}

std::string target_of(int arch) {
  if (arch == 90) return "sm_90a";
  if (arch / 10 == 8) return "sm_80";
  return fmt::format("sm_{}", arch);
}

std::string_view unit_source(std::string_view name) {
  for (const EmbeddedFile& file : kernel_sources())
    if (file.name == name) return file.bytes;
  fail(ErrorKind::internal, "no kernel unit is called {}", name);
}

std::string unit_cubin(std::string_view name, int arch) { return cubin_of(name, {}, arch); }

const InstanceKernel& instance_kernel(const Gpu& gpu, const std::string& unit, std::string_view entry) {
  return instance_kernel(gpu, KernelUnit{unit, {}}, entry);
}

const InstanceKernel& instance_kernel(const Gpu& gpu, const KernelUnit& unit, std::string_view entry) {
  if (const InstanceKernel* const found = store().find(gpu, unit.name, entry)) return *found;
  const Loaded& loaded = store().library(gpu, unit.name, unit.source);
  const std::vector<int> facts = cubin_values(loaded.cubin(), "kernel_facts");
  STOF_CHECK(facts.size() == 2 && facts[0] > 0 && facts[1] > 0);
  const auto shared_bytes = static_cast<unsigned>(facts[0]), threads = static_cast<unsigned>(facts[1]);
  return store().keep(gpu, unit.name, entry,
                      {Kernel(loaded.library, std::string(entry), threads, shared_bytes), threads, shared_bytes});
}

const Kernel& plain_kernel(const Gpu& gpu, std::string_view unit, std::string_view entry, unsigned threads) {
  if (const InstanceKernel* const found = store().find(gpu, unit, entry)) return found->kernel;
  const Loaded& loaded = store().library(gpu, std::string(unit));
  return store().keep(gpu, unit, entry, {Kernel(loaded.library, std::string(entry), threads, 0), threads, 0}).kernel;
}

}  // namespace stof::cuda
