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

struct Loaded {
  std::string cubin;  // the driver keeps pointing at it
  KernelLibrary library;
  Loaded(const Gpu& gpu, std::string code) : cubin(std::move(code)), library(gpu, std::as_bytes(std::span(cubin))) {}
};

class Store {
 public:
  // `source` of a unit that the build may not have; empty for one that it has.
  const Loaded& library(const Gpu& gpu, const std::string& unit, std::string_view source = {}) {
    std::unique_ptr<Loaded>& place = libraries_[{gpu.ordinal, unit}];
    if (!place) place = std::make_unique<Loaded>(gpu, cubin_of(unit, source, gpu.caps.arch));
    return *place;
  }

  std::mutex mutex;
  // Of one entry point. Calls look for theirs here: what has been found before is found without making strings.
  std::unique_ptr<InstanceKernel>& kernel(const Gpu& gpu, std::string_view unit, std::string_view entry) {
    if (const auto found = kernels_.find(std::tuple(gpu.ordinal, unit, entry)); found != kernels_.end())
      return found->second;
    return kernels_[{gpu.ordinal, std::string(unit), std::string(entry)}];
  }

 private:
  std::map<std::pair<int, std::string>, std::unique_ptr<Loaded>> libraries_;
  std::map<std::tuple<int, std::string, std::string>, std::unique_ptr<InstanceKernel>, std::less<>> kernels_;
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
  const std::lock_guard lock(store().mutex);
  std::unique_ptr<InstanceKernel>& place = store().kernel(gpu, unit.name, entry);
  if (!place) {
    const Loaded& loaded = store().library(gpu, unit.name, unit.source);
    const std::vector<int> facts = cubin_values(loaded.cubin, "kernel_facts");
    STOF_CHECK(facts.size() == 2 && facts[0] > 0 && facts[1] > 0);
    const auto shared_bytes = static_cast<unsigned>(facts[0]), threads = static_cast<unsigned>(facts[1]);
    place = std::make_unique<InstanceKernel>(
        InstanceKernel{Kernel(loaded.library, std::string(entry), threads, shared_bytes), threads, shared_bytes});
  }
  return *place;
}

const Kernel& plain_kernel(const Gpu& gpu, std::string_view unit, std::string_view entry, unsigned threads) {
  const std::lock_guard lock(store().mutex);
  std::unique_ptr<InstanceKernel>& place = store().kernel(gpu, unit, entry);
  if (!place)
    place = std::make_unique<InstanceKernel>(InstanceKernel{
        Kernel(store().library(gpu, std::string(unit)).library, std::string(entry), threads, 0), threads, 0});
  return place->kernel;
}

}  // namespace stof::cuda
