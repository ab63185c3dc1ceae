// SPDX-License-Identifier: Apache-2.0
// Every kernel of a device with each of its tiles and splits, not only what choose() would take.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "src/attention/planned.h"
#include "tests/attention/problem.h"

namespace stof {

// Runs the problem under the view's mask, which is bound to the problem's largest lengths, by every plan that any
// kernel of the device has for it, outputs poisoned before each; then calls `check` with the plan in words. Returns how
// many there were; stops after a check that fails fatally. `only`: of this kernel, unless it is empty.
int run_every_plan(const Device& device, const View& view, const Problem& problem,
                   const std::function<void(const std::string& plan)>& check, std::string_view only = {});

}  // namespace stof
