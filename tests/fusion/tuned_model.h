// SPDX-License-Identifier: Apache-2.0
// A small model, tuned into a folder of its own.
#pragma once
#include <gtest/gtest.h>

#include "src/graph/build.h"
#include "src/graph/simplify.h"
#include "src/runtime/programs.h"
#include "src/runtime/tune.h"
#include "tests/runtime/small_bert.h"
#include "tests/temporary_folder.h"

namespace stof {

class Tune : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Model model_ = small_bert(2);
  std::vector<std::string> said_;

  TuneOptions options(const Device& device) {
    return {.device = device,
            .texts = 2,
            .longest = 16,
            .seconds_a_time = 0.0005,
            .confirming_seconds = 0.005,
            .folder = folder_.path(),
            .log = [this](std::string_view message) { said_.emplace_back(message); }};
  }
  float* first_weight(const std::string& name) { return const_cast<float*>(model_.weights.at(name).as<float>()); }
  Programs programs_on(const Device& device) {
    return {simplify(build_bert(model_)),
            {.program = {.device = device, .longest = model_.config.max_positions},
             .mask = {},
             .plans = {.folder = folder_.path(),
                       .log = [this](std::string_view message) { said_.emplace_back(message); }}}};
  }
};

}  // namespace stof
