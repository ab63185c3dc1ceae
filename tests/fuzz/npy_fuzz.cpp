// SPDX-License-Identifier: Apache-2.0
// An .npy file of any bytes is refused or read; what was read is written and read again without a change.
#include <cstring>

#include "src/tensor/npy.h"
#include "stof/error.h"
#include "tests/fuzz/fuzzed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stof;
  static const fuzz::MemoryFile file;
  static const fuzz::Folder folder;
  file.write(fuzz::text_of(data, size));
  try {
    const Tensor tensor = read_npy(file.path());
    fuzz::require(tensor.bytes() <= size);
    const std::filesystem::path copy = folder.path() / "copy.npy";
    write_npy(copy, tensor.view());
    const Tensor again = read_npy(copy);
    fuzz::require(again.dtype() == tensor.dtype() && again.shape() == tensor.shape());
    fuzz::require(tensor.bytes() == 0 || std::memcmp(again.data(), tensor.data(), tensor.bytes()) == 0);
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal);
  }
  return 0;
}
