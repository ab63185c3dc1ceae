// SPDX-License-Identifier: Apache-2.0
#include "src/tensor/npy_header.h"

#include <array>
#include <charconv>
#include <optional>

#include "src/base/error.h"

namespace stof {
namespace {

struct NpyType {
  std::string_view code;
  DType dtype;
};
constexpr std::array<NpyType, 5> kTypes{
    {{"<f4", DType::f32}, {"<f2", DType::f16}, {"|b1", DType::boolean}, {"<i4", DType::i32}, {"<i8", DType::i64}}};
constexpr std::string_view kAccepted = "accepted: little-endian f4, f2, i4, i8, and bool";
constexpr std::size_t kMaxRank = 32;

// The few Python literals that a header is made of.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  NpyHeader parse() {
    std::optional<DType> dtype;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype) dtype = type();
      else if (key == "fortran_order" && !fortran_order) fortran_order = boolean();
      else if (key == "shape" && !shape) shape = dimensions();
      else refuse("its header has an unknown or repeated key '{}'", key);
      if (!take(',') && peek() != '}') malformed();
    }
    skip_spaces();
    if (at_ != text_.size()) malformed();
    if (!dtype || !fortran_order || !shape) refuse("its header lacks one of 'descr', 'fortran_order', 'shape'");
    return {.dtype = *dtype, .fortran_order = *fortran_order, .shape = std::move(*shape)};
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_file, "cannot read '{}': {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void malformed() const { refuse("its .npy header is malformed at character {}", at_); }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) malformed();
  }

  std::string_view quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed();
    const std::size_t begin = ++at_;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) malformed();
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    malformed();
  }

  Shape dimensions() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      shape.push_back(dimension());
      if (!take(',') && peek() != ')') malformed();
    }
    if (shape.size() > kMaxRank) refuse("it has {} dimensions; accepted: at most {}", shape.size(), kMaxRank);
    return shape;
  }

  std::int64_t dimension() {
    peek();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) refuse("a dimension of its shape does not fit 64 bits");
    if (error != std::errc()) malformed();
    if (value < 0) refuse("its shape has the negative dimension {}", value);
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a Python 2 long
    return value;
  }

  DType type() {
    if (peek() == '[') refuse("its dtype is structured; {}", kAccepted);
    const std::string_view code = quoted();
    for (const NpyType& known : kTypes)
      if (code == known.code) return known.dtype;
    if (code.starts_with('>')) refuse("its dtype '{}' is big-endian; {}", code, kAccepted);
    if (code.find('O') != std::string_view::npos)
      refuse("its dtype '{}' is pickled Python objects; {}", code, kAccepted);
    if (code == "<f8") refuse("its dtype is '<f8', what numpy makes unless told; {}, as of .astype('f4')", kAccepted);
    refuse("its dtype is '{}'; {}", code, kAccepted);
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view name) { return HeaderParser(text, name).parse(); }

std::string npy_header(DType dtype, const Shape& shape) {
  std::string_view code;
  for (const NpyType& known : kTypes)
    if (known.dtype == dtype) code = known.code;
  if (code.empty())
    fail(ErrorKind::invalid_argument, "an .npy file cannot hold {}; accepted: f32, f16, i32, i64, bool",
         name_of(dtype));
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", code,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;  // magic, version 1.0, 16-bit length
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace stof
