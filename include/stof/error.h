// SPDX-License-Identifier: Apache-2.0
// The one exception type of the library. The library never prints and never exits.
#pragma once
#include <stdexcept>
#include <string>

namespace stof {

enum class ErrorKind {
  invalid_argument,  // the caller's value is wrong; the message names what was got and what is accepted
  unsupported,       // a valid request that nothing built here can serve
  bad_file,          // a file that is missing, truncated, or not what it claims to be
  device,            // the device, its driver, or memory
  internal,          // a bug in STOF
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace stof
