// SPDX-License-Identifier: Apache-2.0
// A safetensors file of any bytes is refused or read; every byte of what was read is inside the file.
#include "src/model/safetensors.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stof;
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data, size));
  try {
    const TensorFile read = read_safetensors(file.path());
    std::size_t bytes = 0;
    volatile std::uint8_t touched = 0;
    for (const auto& [name, view] : read.tensors) {
      const std::size_t length = static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype);
      fuzz::require(view.contiguous());
      for (std::size_t i = 0; i < length; ++i) touched = view.as<const std::uint8_t>()[i];
      bytes += length;
    }
    fuzz::require(bytes <= size);
    static_cast<void>(touched);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
