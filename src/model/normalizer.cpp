// SPDX-License-Identifier: Apache-2.0
#include "src/model/normalizer.h"

#include <algorithm>
#include <vector>

#include "src/model/unicode.h"

namespace stof {
namespace {

constexpr char kDropped = '\x80';  // no ASCII character

}  // namespace

// Combining characters since the last starter, which canonical order sorts by class, equal ones in order of
// appearance. Nonspacing marks never get here: they are dropped, so only a few rare characters do.
class Normalizer::Marks {
 public:
  bool empty() const { return marks_.empty(); }
  void add(char32_t scalar, int combining_class) { marks_.push_back({scalar, combining_class}); }
  void flush(const Normalizer& normalizer, std::string& out) {
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    for (const Mark& mark : marks_) normalizer.append_lowered(mark.scalar, out);
    marks_.clear();
  }

 private:
  struct Mark {
    char32_t scalar;
    int combining_class;
  };
  std::vector<Mark> marks_;
};

Normalizer::Normalizer(const NormalizerOptions& options) : options_(options) {
  for (unsigned char c = 0; c < 128; ++c) ascii_[c] = ascii(c);
}

char Normalizer::ascii(unsigned char byte) const {
  if (options_.clean_text && unicode::is_dropped(byte)) return kDropped;
  if (options_.clean_text && unicode::is_white_space(byte)) return ' ';
  return static_cast<char>(options_.lowercase ? unicode::lower(byte).first : byte);
}

void Normalizer::append_ascii(std::string_view text, std::string& out) const {
  std::size_t size = out.size();
  out.resize(size + text.size());
  for (const char c : text) {
    out[size] = ascii_[static_cast<unsigned char>(c)];
    size += out[size] != kDropped;
  }
  out.resize(size);
}

bool Normalizer::keeps_any(std::string_view ascii) const {
  return std::ranges::any_of(ascii, [&](char c) { return ascii_[static_cast<unsigned char>(c)] != kDropped; });
}

void Normalizer::append_lowered(char32_t c, std::string& out) const {
  if (!options_.lowercase) return unicode::append(out, c);
  const unicode::Lower lower = unicode::lower(c);
  unicode::append(out, lower.first);
  if (lower.second != 0) unicode::append(out, lower.second);
}

void Normalizer::append_scalar(char32_t c, std::string& out, Marks& marks) const {
  if (!options_.strip_accents) return append_lowered(c, out);
  const unicode::Decomposition parts = unicode::decompose(c);
  for (std::size_t i = 0; i < parts.count; ++i) {
    const char32_t part = parts.scalars[i];
    const int combining_class = unicode::combining_class(part);
    if (combining_class == 0 && !marks.empty()) marks.flush(*this, out);  // a starter, even one that is dropped next
    if (unicode::is_nonspacing_mark(part)) continue;
    if (combining_class == 0) append_lowered(part, out);
    else marks.add(part, combining_class);
  }
}

void Normalizer::append(std::string_view text, std::string& out) const {
  Marks marks;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
    if (end > i) {
      const std::string_view run = text.substr(i, end - i);
      if (!marks.empty() && keeps_any(run)) marks.flush(*this, out);
      append_ascii(run, out);
      i = end;
      continue;
    }
    const auto [c, bytes] = unicode::decode(text.data() + i);
    i += bytes;
    if (options_.clean_text && unicode::is_dropped(c)) continue;
    const bool spaced = options_.handle_chinese_chars && unicode::is_chinese(c);
    if (spaced) append_scalar(U' ', out, marks);
    append_scalar(options_.clean_text && unicode::is_white_space(c) ? U' ' : c, out, marks);
    if (spaced) append_scalar(U' ', out, marks);
  }
  marks.flush(*this, out);
}

}  // namespace stof
