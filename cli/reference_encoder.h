// SPDX-License-Identifier: Apache-2.0
// A BERT encoder by its definition, in double, operator by operator: what timed models are checked against.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/model.h"
#include "stof/mask.h"

namespace stof::cli {

// Throws unsupported for a checkpoint of another family; `option` has its folder.
void check_is_bert(std::string_view option, const std::string& folder);

// The last hidden state of one text, [wanted.size()][hidden]: of these tokens alone, since the last layer of a long
// text takes most of the time.
std::vector<double> reference_encoder(const Model& model, std::span<const std::int32_t> ids, const Mask& mask,
                                      std::span<const std::int64_t> wanted);

}  // namespace stof::cli
