// SPDX-License-Identifier: Apache-2.0
#include "src/model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "src/base/error.h"
#include "src/model/file_map.h"
#include "src/model/json.h"

namespace stof {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is not converted");

constexpr std::size_t kLengthBytes = 8;
// The format's own bound on the header (100 MB); three levels: header, tensor, shape.
constexpr JsonLimits kHeaderLimits{.bytes = 100'000'000, .depth = 3, .values = 4'000'000};

struct NamedDType {
  std::string_view name;
  int bits;                    // of one element
  std::optional<DType> dtype;  // empty: this library has no type for it
};
constexpr std::array<NamedDType, 22> kDTypes{
    {{"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16},
     {"I32", 32, DType::i32}, {"I64", 64, DType::i64}, {"BOOL", 8, DType::boolean},
     {"F64", 64, {}},         {"C64", 64, {}},         {"F8_E4M3", 8, {}},
     {"F8_E5M2", 8, {}},      {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},
     {"F8_E8M0", 8, {}},      {"F6_E2M3", 6, {}},      {"F6_E3M2", 6, {}},
     {"F4", 4, {}},           {"U8", 8, {}},           {"I8", 8, {}},
     {"U16", 16, {}},         {"I16", 16, {}},         {"U32", 32, {}},
     {"U64", 64, {}}}};

struct Entry {
  std::string name;
  const NamedDType* dtype;
  Shape shape;
  std::size_t begin, end;  // in the data
};

struct Mapping {
  explicit Mapping(const std::filesystem::path& file) : map(file) {}
  FileMap map;
  std::vector<Tensor> copies;
};

std::string_view header_of(const FileMap& map, const std::string& file) {
  const std::string_view text = map.text();
  if (text.size() < kLengthBytes)
    fail(ErrorKind::bad_file, "{}: {} bytes; a safetensors file begins with {} bytes of header length", file,
         text.size(), kLengthBytes);
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), kLengthBytes);
  if (length > kHeaderLimits.bytes)
    fail(ErrorKind::bad_file, "{}: header of {} bytes; accepted: at most {}", file, length, kHeaderLimits.bytes);
  if (length > text.size() - kLengthBytes)
    fail(ErrorKind::bad_file, "{}: header of {} bytes in a file of {}; is it truncated?", file, length, text.size());
  return text.substr(kLengthBytes, length);
}

const NamedDType& read_dtype(const JsonObject& tensor) {
  const std::string name = tensor.string("dtype");
  for (const NamedDType& known : kDTypes)
    if (name == known.name) return known;
  std::vector<std::string_view> accepted;
  for (const NamedDType& known : kDTypes) accepted.push_back(known.name);
  fail(ErrorKind::bad_file, "{}: dtype {}; accepted: {}", tensor.where(), name, fmt::join(accepted, ", "));
}

std::vector<std::uint64_t> read_sizes(const JsonObject& tensor, std::string_view key) {
  const json& list = tensor.at(key);
  const auto is_size = [](const json& v) {
    return v.is_number_unsigned() && std::in_range<std::int64_t>(v.get<std::uint64_t>());
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_size))
    tensor.refuse(key, "an array of integers from 0 to 2^63 - 1");
  return list.get<std::vector<std::uint64_t>>();
}

// Of so many elements, which are whole bytes together.
std::int64_t bytes_of(const Shape& shape, const NamedDType& dtype) {
  const std::int64_t count = element_count(shape), rest = count % 8 * dtype.bits;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count / 8, dtype.bits, &bytes) || __builtin_add_overflow(bytes, rest / 8, &bytes))
    fail(ErrorKind::bad_file, "shape {} of {} has more than 2^63 - 1 bytes", to_string(shape), dtype.name);
  if (rest % 8 != 0)
    fail(ErrorKind::bad_file, "shape {} of {}, {} bits each, ends within a byte", to_string(shape), dtype.name,
         dtype.bits);
  return bytes;
}

Entry read_entry(const std::string& name, const json& value, const std::string& file) {
  const JsonObject tensor(value, fmt::format("{}: tensor '{}'", file, name));
  tensor.allow_only({"dtype", "shape", "data_offsets"});
  const std::vector<std::uint64_t> dims = read_sizes(tensor, "shape"), offsets = read_sizes(tensor, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) tensor.refuse("data_offsets", "[begin, end], begin <= end");
  const NamedDType& dtype = read_dtype(tensor);
  Shape shape(dims.begin(), dims.end());
  std::int64_t wanted = 0;
  try {
    wanted = bytes_of(shape, dtype);
  } catch (const Error& error) {
    fail(ErrorKind::bad_file, "{}: {}", tensor.where(), error.what());
  }
  if (offsets[1] - offsets[0] != static_cast<std::uint64_t>(wanted))
    fail(ErrorKind::bad_file, "{}: shape {} of {} has {} bytes, its data_offsets [{}, {}] have {}", tensor.where(),
         to_string(shape), dtype.name, wanted, offsets[0], offsets[1], offsets[1] - offsets[0]);
  return {.name = name, .dtype = &dtype, .shape = std::move(shape), .begin = offsets[0], .end = offsets[1]};
}

std::vector<Entry> read_entries(std::string_view header, const std::string& file) {
  const json tree = parse_json(header, file + ": header", kHeaderLimits);
  if (!tree.is_object() || header.front() != '{')
    fail(ErrorKind::bad_file, "{}: the header is not an object that begins with '{{' in byte {}", file, kLengthBytes);
  std::vector<Entry> entries;
  for (const auto& [name, value] : tree.items()) {
    if (name == "__metadata__") continue;  // free text
    entries.push_back(read_entry(name, value, file));
  }
  return entries;
}

// The tensors have to cover the data without holes: a hole or an overlap is how a file smuggles or shares bytes.
void check_cover(std::vector<Entry>& entries, std::size_t data_bytes, const std::string& file) {
  for (const Entry& entry : entries)
    if (entry.end > data_bytes)
      fail(ErrorKind::bad_file, "{}: tensor '{}' ends at byte {} of {} bytes of data; is the file truncated?", file,
           entry.name, entry.end, data_bytes);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::size_t end = 0;
  std::string previous = "the header";
  for (const Entry& entry : entries) {
    if (entry.begin < end)
      fail(ErrorKind::bad_file, "{}: tensor '{}' begins at byte {} and overlaps {}, which ends at {}", file, entry.name,
           entry.begin, previous, end);
    if (entry.begin > end)
      fail(ErrorKind::bad_file, "{}: bytes {} to {} between {} and tensor '{}' belong to no tensor", file, end,
           entry.begin, previous, entry.name);
    end = entry.end;
    previous = fmt::format("tensor '{}'", entry.name);
  }
  if (end != data_bytes)
    fail(ErrorKind::bad_file, "{}: bytes {} to {} after {} belong to no tensor", file, end, data_bytes, previous);
}

// Any byte but 0 and 1 in a C++ bool is undefined behaviour later.
void check_booleans(const Entry& entry, const std::byte* data, const std::string& file) {
  for (std::size_t i = 0; i < entry.end - entry.begin; ++i)
    if (data[i] > std::byte{1})
      fail(ErrorKind::bad_file, "{}: tensor '{}': element {} is {}; accepted: 0, 1", file, entry.name, i,
           std::to_integer<int>(data[i]));
}

TensorView view_or_copy(const Entry& entry, const std::byte* data, std::vector<Tensor>& copies) {
  const DType dtype = *entry.dtype->dtype;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0)
    return view_of(const_cast<std::byte*>(data), dtype, entry.shape);
  const Tensor& copy = copies.emplace_back(dtype, entry.shape);
  if (copy.bytes() != 0) std::memcpy(copy.data(), data, copy.bytes());
  return copy.view();
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) {
  const std::string file = path.string();
  const auto mapping = std::make_shared<Mapping>(path);
  const std::string_view header = header_of(mapping->map, file);
  const std::span<const std::byte> data = mapping->map.bytes().subspan(kLengthBytes + header.size());
  std::vector<Entry> entries = read_entries(header, file);
  check_cover(entries, data.size(), file);

  TensorFile result{.tensors = {}, .others = {}, .mapping = mapping};
  for (const Entry& entry : entries) {
    const std::byte* begin = data.data() + entry.begin;
    if (!entry.dtype->dtype) {
      result.others.emplace(entry.name, entry.dtype->name);
      continue;
    }
    if (entry.dtype->dtype == DType::boolean) check_booleans(entry, begin, file);
    result.tensors.emplace(entry.name, view_or_copy(entry, begin, mapping->copies));
  }
  return result;
}

}  // namespace stof
