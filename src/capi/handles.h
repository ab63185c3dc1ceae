// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of stof.h hold: nothing in them changes but what is guarded inside.
#pragma once
#include <string>

#include "src/base/pool.h"
#include "stof/attention.h"
#include "stof/stof.h"

struct stof_mask {
  explicit stof_mask(stof::Mask the_mask) : mask(std::move(the_mask)), text(mask.text()) {}
  const stof::Mask mask;
  const std::string text;
};

struct stof_plan {
  stof_plan(const stof_mask& mask, const stof::AttentionShape& the_shape, const stof::Device& the_device,
            const stof::AttentionOptions& options);
  stof_plan(const stof::MaskTable& table, const stof::Mask& limit, const stof::AttentionShape& the_shape,
            const stof::Device& the_device);
  const stof::AttentionShape shape;
  const stof::Device device;
  const stof::Attention attention;
  const std::string description;
  mutable stof::Pool<stof::AttentionArguments> arguments;  // of calls, whose lists keep their memory
};
