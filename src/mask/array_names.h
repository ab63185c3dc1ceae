// SPDX-License-Identifier: Apache-2.0
// How an array inside a mask is written: by the file it came from, or by its content.
#pragma once
#include <string>

#include "src/base/hash.h"

namespace stof {

enum class ArrayNames {
  display,    // the file's name, when it came from one
  canonical,  // always the fingerprint: equal content, equal text
};

struct ArraySource {
  Fingerprint content;
  std::string file;  // as written in the text, empty for an array held in memory

  std::string print(ArrayNames names) const;
  // "the array", or "the array 'mask.npy'": the subject of a message.
  std::string subject() const;
};

}  // namespace stof
