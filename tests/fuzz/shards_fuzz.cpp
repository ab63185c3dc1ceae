// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json and two shards, a.safetensors and b.safetensors: refused, or every byte of what was read
// is inside the shards.
#include <array>

#include "src/model/weight_files.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using namespace stof;

struct Files {
  std::array<fuzz::MemoryFile, 3> parts;
  fuzz::Folder folder;
  Files() {
    folder.link("model.safetensors.index.json", parts[0]);
    folder.link("a.safetensors", parts[1]);
    folder.link("b.safetensors", parts[2]);
  }
};

void touch(const TensorFile& file, std::size_t most) {
  std::size_t bytes = 0;
  volatile std::uint8_t touched = 0;
  for (const auto& [name, view] : file.tensors) {
    const std::size_t length = static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype);
    for (std::size_t i = 0; i < length; ++i) touched = view.as<const std::uint8_t>()[i];
    bytes += length;
    fuzz::require(!file.others.contains(name));
  }
  fuzz::require(bytes <= most);
  static_cast<void>(touched);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  std::string_view text = fuzz::text_of(data, size);
  for (const fuzz::MemoryFile& part : files.parts) part.write(fuzz::next_part(text));
  try {
    touch(read_weight_files(files.folder.path()).tensors, size);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
