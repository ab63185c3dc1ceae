// SPDX-License-Identifier: Apache-2.0
// Errors that name an argument of a term, so that parse() can point at it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/error.h"

namespace stof {

class ArgumentError : public Error {
 public:
  // `index`: which argument of the term; `element`: which element of it when it is a list, else -1.
  ArgumentError(int index, std::int64_t element, const std::string& message)
      : Error(ErrorKind::invalid_argument, message), index_(index), element_(element) {}
  int index() const { return index_; }
  std::int64_t element() const { return element_; }

 private:
  int index_;
  std::int64_t element_;
};

struct ArgumentPlace {
  int index = 0;
  std::int64_t element = -1;
};

template <class... Args>
[[noreturn]] void fail_argument(ArgumentPlace place, fmt::format_string<Args...> format, Args&&... args) {
  throw ArgumentError(place.index, place.element, fmt::format(format, std::forward<Args>(args)...));
}

// Elements of a list, at most: the text of the mask then stays below kMaxText.
inline constexpr std::size_t kMaxElements = std::size_t{1} << 22;
inline constexpr std::size_t kMaxSegments = 1'000'000;

inline void check_elements(std::string_view what, std::size_t count, std::size_t most = kMaxElements) {
  if (count > most) fail_argument({}, "{}: {} elements; accepted: at most {}", what, count, most);
}

struct Limits {
  std::int64_t least, most;
};

// `what` names term and argument: "window: left = -3; accepted: 0 to 1152921504606846976".
inline std::int64_t check_argument(ArgumentPlace place, std::string_view what, std::int64_t value, Limits limits) {
  if (value < limits.least || value > limits.most)
    fail_argument(place, "{} = {}; accepted: {} to {}", what, value, limits.least, limits.most);
  return value;
}

}  // namespace stof
