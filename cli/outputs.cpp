// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <filesystem>
#include <map>

#include "src/base/atomic_file.h"
#include "src/base/error.h"

namespace stof::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kLargestBytes = 4.0 * (1 << 30);

// May be past every integer.
double bytes_of(const Shape& shape, DType dtype) {
  double bytes = static_cast<double>(size_of(dtype));
  for (const std::int64_t extent : shape) bytes *= static_cast<double>(extent);
  return bytes;
}

// A pipe or a device is not opened twice: its reader would see an end.
void check_creatable(const std::string& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) return;
  const AtomicFile never_committed(file);
}

}  // namespace

void check_outputs(std::initializer_list<OutputFile> outputs) {
  std::map<fs::path, std::string_view> option_of;
  for (const auto& [option, file, or_stdout] : outputs) {
    if (file.empty() || (file == "-" && or_stdout)) continue;
    if (file == "-") fail(ErrorKind::invalid_argument, "{} -; accepted: the name of a file", option);
    std::error_code ignored;
    const auto [known, added] = option_of.try_emplace(fs::weakly_canonical(file, ignored), option);
    if (!added) fail(ErrorKind::invalid_argument, "{} and {} both write '{}'", known->second, option, file);
  }
  for (const OutputFile& output : outputs)
    if (!output.file.empty() && output.file != "-") check_creatable(output.file);
}

void check_space(const std::string& file, const Shape& shape, DType dtype) {
  std::error_code unknown;
  if (fs::exists(file, unknown) && !fs::is_regular_file(file, unknown)) return;
  const fs::path folder = fs::absolute(file, unknown).parent_path();
  const auto free = static_cast<double>(fs::space(folder, unknown).available);
  const double bytes = bytes_of(shape, dtype);
  if (!unknown && bytes > free)
    fail(ErrorKind::device, "'{}' would take {:.1f} GiB; {:.1f} GiB are free", file, bytes / (1 << 30),
         free / (1 << 30));
}

bool is_large(const Shape& shape, DType dtype) { return bytes_of(shape, dtype) > kLargestBytes; }

void check_size(const std::string& file, const Shape& shape, DType dtype) {
  if (is_large(shape, dtype))
    fail(ErrorKind::invalid_argument, "'{}' would take {:.1f} GiB; above 4 GiB needs --force", file,
         bytes_of(shape, dtype) / (1 << 30));
}

}  // namespace stof::cli
