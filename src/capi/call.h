// SPDX-License-Identifier: Apache-2.0
// The arguments of a run as C gives them: raw addresses and distances, checked before anything is read through them.
#pragma once
#include "src/capi/handles.h"

namespace stof::capi {

// Fills `arguments`, those of an earlier call. Throws invalid_argument naming the argument, what was got and what is
// accepted.
void convert(const stof_call& call, const stof_plan& plan, AttentionArguments& arguments);

}  // namespace stof::capi
