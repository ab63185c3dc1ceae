// SPDX-License-Identifier: Apache-2.0
// A plan as JSON, for `stof plan --json` and for programs in other languages. Keys keep their names and order.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "src/backend/contract.h"

namespace stof {

std::string_view name_of(LayoutKind kind);
std::string_view name_of(RowOrigin origin);
nlohmann::ordered_json describe_tiles(const AttentionPlan& plan);
nlohmann::ordered_json describe(const AttentionPlan& plan);

}  // namespace stof
