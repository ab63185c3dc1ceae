// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/kernel_cache.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/whole_file.h"

namespace stof {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kBinary = ".kernel", kSource = ".cu";

// What stands before the binary in its file.
struct Header {
  char magic[8] = {'S', 'T', 'O', 'F', 'K', 'R', 'N', '1'};
  Fingerprint key, content;
};
static_assert(sizeof(Header) == 40);

void write(const fs::path& path, std::initializer_list<std::string_view> parts) {
  AtomicFile file(path, TakenName::replaced);
  for (const std::string_view part : parts) file.append(part);
  file.commit();
}

struct Entry {
  fs::file_time_type used;
  fs::path path;
  std::uint64_t bytes;
};

// Binaries, the one not used for longest first. Another process may remove one while this one looks.
std::vector<Entry> entries_of(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code gone;
  for (fs::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone)) {
    if (it->path().extension() != kBinary) continue;
    std::error_code failed;
    Entry entry{it->last_write_time(failed), it->path(), 0};
    if (!failed) entry.bytes = it->file_size(failed);
    if (failed) continue;
    if (const auto source = fs::file_size(fs::path(it->path()).replace_extension(kSource), failed); !failed)
      entry.bytes += source;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  return entries;
}

// What a process has left that ended between the two removals of an entry.
void remove_lone_sources(const fs::path& folder) {
  std::error_code gone;
  std::vector<fs::path> lone;
  for (fs::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone)) {
    std::error_code failed;
    const bool is_source = it->path().extension() == kSource;
    if (is_source && !fs::exists(fs::path(it->path()).replace_extension(kBinary), failed) && !failed)
      lone.push_back(it->path());
  }
  for (const fs::path& path : lone) fs::remove(path, gone);
}

}  // namespace

Fingerprint KernelKey::fingerprint() const {
  std::string text;
  // Each part with its length, so that no two keys read the same.
  for (const std::string& part : {library_version, target, compiler, options, source})
    text += fmt::format("{}:{}\n", part.size(), part);
  return fingerprint_of(text);
}

fs::path KernelCache::path_of(const KernelKey& key, std::string_view extension) const {
  return options_.folder / (key.fingerprint().hex() + std::string(extension));
}

void KernelCache::say(std::string_view message) const {
  if (options_.log) options_.log(message);
}

std::optional<std::string> KernelCache::find(const KernelKey& key) const {
  if (options_.folder.empty()) return std::nullopt;
  const fs::path path = path_of(key, kBinary);
  std::optional<std::string> bytes = read_whole_file(path);
  if (!bytes) return std::nullopt;
  Header header, expected;
  if (bytes->size() > sizeof header) std::memcpy(&header, bytes->data(), sizeof header);
  const std::string_view binary = std::string_view(*bytes).substr(std::min(sizeof header, bytes->size()));
  const bool whole = bytes->size() > sizeof header && std::memcmp(header.magic, expected.magic, 8) == 0 &&
                     header.key == key.fingerprint() && header.content == fingerprint_of(binary);
  std::error_code ignored;
  if (!whole) {
    say(fmt::format("kernel cache: '{}' is damaged and is built again", path.string()));
    fs::remove(path, ignored);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // used: evicted later
  return std::string(binary);
}

void KernelCache::publish(const KernelKey& key, std::string_view binary) const {
  if (options_.folder.empty()) return;
  Header header;
  header.key = key.fingerprint();
  header.content = fingerprint_of(binary);
  const fs::path path = path_of(key, kBinary);
  std::string_view so = "the kernel is used and not kept";
  try {
    std::error_code failed;
    fs::create_directories(options_.folder, failed);
    if (failed) fail(ErrorKind::bad_file, "cannot make folder '{}': {}", options_.folder.string(), failed.message());
    const std::string about =
        fmt::format("// {}, {} {}, STOF {}\n", key.target, key.compiler, key.options, key.library_version);
    write(path, {{reinterpret_cast<const char*>(&header), sizeof header}, binary});
    so = "the kernel is kept without it";
    write(path_of(key, kSource), {about, key.source});  // after the binary, which it goes with
    evict(path);
  } catch (const Error& error) {
    say(fmt::format("kernel cache: {}; {}", error.what(), so));
  }
}

void KernelCache::evict(const fs::path& keep) const {
  remove_abandoned_parts(options_.folder);
  remove_lone_sources(options_.folder);
  const std::vector<Entry> entries = entries_of(options_.folder);
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  for (const Entry& entry : entries) {
    if (total <= options_.limit_bytes) return;
    if (entry.path == keep) continue;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    fs::remove(fs::path(entry.path).replace_extension(kSource), ignored);
    total -= entry.bytes;
  }
}

}  // namespace stof
