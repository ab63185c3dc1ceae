// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/cubin_values.h"

#include <elf.h>

#include <cstring>

#include "src/base/error.h"

namespace stof {
namespace {

[[noreturn]] void damaged() { fail(ErrorKind::device, "a compiled kernel is damaged: it is not a whole ELF file"); }

template <class T>
T read(std::string_view bytes, std::uint64_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) damaged();
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::string_view bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) damaged();
  const std::string_view rest = bytes.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace

std::vector<int> cubin_values(std::string_view cubin, std::string_view name) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) damaged();
  const auto section = [&](std::uint64_t index) {
    return read<Elf64_Shdr>(cubin, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr names = section(symbols.sh_link);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(cubin, symbols.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || text_at(cubin, names.sh_offset + symbol.st_name) != name)
        continue;
      const std::uint64_t begin = section(symbol.st_shndx).sh_offset + symbol.st_value;
      std::vector<int> values;
      for (std::uint64_t b = 0; b < symbol.st_size; b += sizeof(int)) values.push_back(read<int>(cubin, begin + b));
      return values;
    }
  }
  fail(ErrorKind::device, "a compiled kernel does not say its {}", name);
}

}  // namespace stof
