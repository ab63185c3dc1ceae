// SPDX-License-Identifier: Apache-2.0
// Compiled kernels kept on disk. An entry is found by everything that could change it and appears whole or not at all;
// one that is damaged counts as absent. No failure of the disk is an error: it is said, and costs the compile time.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/hash.h"

namespace stof {

struct KernelKey {
  std::string source;  // with everything that it includes
  std::string compiler, options, target, library_version;
  Fingerprint fingerprint() const;
};

using Log = std::function<void(std::string_view)>;

struct KernelCacheOptions {
  std::filesystem::path folder;  // empty: nothing is kept
  std::uint64_t limit_bytes = std::uint64_t{256} << 20;
  Log log = {};  // what a person may want to know; empty: nobody listens
};

// Safe to use from several threads and processes at once.
class KernelCache {
 public:
  explicit KernelCache(KernelCacheOptions options) : options_(std::move(options)) {}

  std::optional<std::string> find(const KernelKey& key) const;
  // Keeps the binary, its source beside it for people, and drops what was not used for longest when the limit is
  // passed.
  void publish(const KernelKey& key, std::string_view binary) const;

 private:
  std::filesystem::path path_of(const KernelKey& key, std::string_view extension) const;
  void say(std::string_view message) const;
  void evict(const std::filesystem::path& keep) const;

  KernelCacheOptions options_;
};

}  // namespace stof
