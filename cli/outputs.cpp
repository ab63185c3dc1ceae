// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>

#include "cli/size_text.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/model/file_names.h"

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

struct Named {
  std::string_view option, written_again;
  bool is_input;
};

using NamedFiles = std::map<fs::path, Named>;

// weakly_canonical leaves a relative path relative whose first component does not exist.
fs::path place_of(const fs::path& file) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(file, ignored), ignored);
}

// Pipes and devices are not overwritten.
NamedFiles named_inputs(const std::vector<InputFile>& inputs) {
  NamedFiles named;
  std::error_code ignored;
  for (const auto& [option, file, written_again] : inputs)
    if (fs::is_regular_file(file, ignored)) named.try_emplace(place_of(file), Named{option, written_again, true});
  return named;
}

void add_output(NamedFiles& named, const OutputFile& output) {
  const Named written{output.option, {}, false};
  const auto [place, added] = named.try_emplace(place_of(output.file), written);
  const Named& known = place->second;
  if (!added && known.written_again != output.option)
    fail(ErrorKind::invalid_argument, "{} and {} {} '{}'", known.option, output.option,
         known.is_input ? "are both" : "both write", output.file);
  place->second = written;
}

// A pipe or a device is not opened twice: its reader would see an end.
void check_creatable(const std::string& file) {
  std::error_code ignored;
  const fs::file_status status = fs::status(file, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) return;
  const AtomicFile never_committed(file);
}

}  // namespace

std::vector<InputFile> files_of_model(std::string_view option, const std::string& folder) {
  std::vector<InputFile> files;
  std::error_code unreadable;  // reading says more
  const auto is_weights = [](const fs::path& path) { return path.extension() == ".safetensors"; };
  const auto add_module = [&](const fs::path& module) {  // a pooling or a dense layer
    for (const std::string_view name : {file_names::kConfig, file_names::kWeightIndex})
      files.push_back({option, module / name});
    for (const fs::directory_entry& entry : fs::directory_iterator(module, unreadable))
      if (is_weights(entry.path())) files.push_back({option, entry.path()});
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const fs::path& path = entry.path();
    if (entry.is_directory(unreadable)) add_module(path);
    else if (is_weights(path) || file_names::is_read(path.filename().string())) files.push_back({option, path});
  }
  return files;
}

std::vector<InputFile> files_of_mask(std::string_view option, std::string_view text) {
  std::vector<InputFile> files;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("(,)\"'", begin), text.size());
    std::string_view name = text.substr(begin, end - begin);
    begin = end + 1;
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.ends_with(".npy")) files.push_back({option, std::string(name)});
  }
  return files;
}

std::vector<InputFile> files_of_masks(const std::vector<std::string>& texts) {
  std::vector<InputFile> files;
  for (const std::string& text : texts) std::ranges::move(files_of_mask("--mask", text), std::back_inserter(files));
  return files;
}

void check_outputs(std::initializer_list<OutputFile> outputs, const std::vector<InputFile>& inputs) {
  NamedFiles named = named_inputs(inputs);
  std::string_view to_stdout;
  for (const OutputFile& output : outputs) {
    const auto& [option, file, or_stdout] = output;
    if (file == "-" && !or_stdout) fail(ErrorKind::invalid_argument, "{} -; accepted: the name of a file", option);
    if (file == "-" && !to_stdout.empty())
      fail(ErrorKind::invalid_argument, "{} - and {} - both write to stdout; give one of them a file", to_stdout,
           option);
    if (file == "-") to_stdout = option;
    else if (!file.empty()) add_output(named, output);
  }
  for (const OutputFile& output : outputs)
    if (!output.file.empty() && output.file != "-") check_creatable(output.file);
}

void check_keeps(std::string_view what, const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  // Tried: what may be done by its permissions a file system may still refuse.
  std::string draft = folder / ".stof-XXXXXX";
  if (!failed && mkdtemp(draft.data()) == nullptr) failed.assign(errno, std::generic_category());
  if (failed)
    fail(ErrorKind::bad_file,
         "{} cannot be kept in '{}': {}; accepted: XDG_CACHE_HOME with a folder that can be written", what,
         folder.string(), failed.message());
  rmdir(draft.c_str());
}

void check_space(const std::string& file, const Shape& shape, DType dtype) {
  std::error_code unknown;
  if (fs::exists(file, unknown) && !fs::is_regular_file(file, unknown)) return;
  const fs::path folder = fs::absolute(file, unknown).parent_path();
  const auto free = static_cast<double>(fs::space(folder, unknown).available);
  const double bytes = bytes_of(shape, dtype);
  if (!unknown && bytes > free)
    fail(ErrorKind::device, "'{}' would take {}; {} are free", file, size_text(bytes), size_text(free));
}

bool is_large(const Shape& shape, DType dtype) { return bytes_of(shape, dtype) > kLargestBytes; }

void check_size(const std::string& file, const Shape& shape, DType dtype) {
  if (is_large(shape, dtype))
    fail(ErrorKind::invalid_argument, "'{}' would take {}; above 4 GiB needs --force", file,
         size_text(bytes_of(shape, dtype)));
}

}  // namespace stof::cli
