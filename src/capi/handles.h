// SPDX-License-Identifier: Apache-2.0
// What the opaque handles hold. But for a text stream's, nothing in them changes that is not guarded inside.
#pragma once
#include <memory>
#include <string>

#include "src/base/pool.h"
#include "src/model/token_stream.h"
#include "stof/attention.h"
#include "stof/session.h"
#include "stof/stof_session.h"

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

struct stof_relative_bias {
  const stof::RelativeBias bias;
};

struct stof_session {
  const std::shared_ptr<const stof::Session> session;
  const std::string device;  // as stof_session_load takes it
};

struct stof_text_stream {
  const std::shared_ptr<const stof::Tokenizer> tokenizer;  // of the session, which may be gone
  stof::TokenStream stream;
  std::string text;  // what the last call gave
};
