// SPDX-License-Identifier: Apache-2.0
// Terms with arrays that remember the file they were read from.
#pragma once
#include <string>

#include "stof/mask.h"

namespace stof {

Mask bits(const TensorView& allowed, const std::string& file);
Mask blocks(std::int64_t size, const TensorView& table, const std::string& file);
Mask document_ids(const TensorView& ids, const std::string& file);

}  // namespace stof
