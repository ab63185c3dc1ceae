// SPDX-License-Identifier: Apache-2.0
// Plans in C: made, prepared, described.
#include <nlohmann/json.hpp>

#include "src/attention/describe.h"
#include "src/capi/array.h"
#include "src/capi/boundary.h"
#include "src/capi/handles.h"

namespace {

using stof::capi::given;
using stof::capi::guarded;

stof::AttentionShape shape_of(const stof_shape* given_shape) {
  const stof_shape& shape = stof::capi::given_sized(given_shape, "stof_plan_create: shape");
  return {.batch = shape.batch,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .queries = shape.queries,
          .keys = shape.keys,
          .head_dim = shape.head_dim,
          .dtype = stof::capi::dtype_of("stof_plan_create: shape.dtype", shape.dtype)};
}

std::string description_of(const stof_plan& plan, const std::string& mask) {
  const stof::AttentionShape& s = plan.shape;
  nlohmann::ordered_json json{{"mask", mask}, {"device", plan.device.caps.name}};
  json["shape"] = {{"batch", s.batch}, {"heads", s.heads},       {"kv_heads", s.kv_heads},   {"queries", s.queries},
                   {"keys", s.keys},   {"head_dim", s.head_dim}, {"dtype", name_of(s.dtype)}};
  json.update(stof::describe(plan.attention.plan()));
  // A mask names files, and names of files may be any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

stof_plan::stof_plan(const stof_mask& mask, const stof::AttentionShape& the_shape, const stof::Device& the_device,
                     const stof::AttentionOptions& options)
    : shape(the_shape),
      device(the_device),
      attention(mask.mask, shape, device, options),
      description(description_of(*this, mask.text)) {}

stof_status stof_plan_create(const stof_mask* mask, const stof_shape* shape, const char* device, const char* kernel,
                             stof_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guarded([&] {
    stof_plan*& handle = given(plan, "stof_plan_create: plan");
    const stof_mask& of_mask = given(mask, "stof_plan_create: mask");
    const stof::AttentionShape of_shape = shape_of(shape);
    const char* const name = &given(device, "stof_plan_create: device");
    handle = new stof_plan(of_mask, of_shape, stof::open_device(name), {.kernel = kernel == nullptr ? "auto" : kernel});
  });
}

stof_status stof_plan_prepare(stof_plan* plan, int64_t queries, int64_t keys) {
  return guarded([&] { given(plan, "stof_plan_prepare: plan").attention.prepare(queries, keys); });
}

const char* stof_plan_description(const stof_plan* plan) {
  return plan == nullptr ? nullptr : plan->description.c_str();
}

stof_status stof_plan_workspace_size(const stof_plan* plan, size_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  return guarded([&] {
    size_t& size = given(bytes, "stof_plan_workspace_size: bytes");
    size = given(plan, "stof_plan_workspace_size: plan").attention.workspace_bytes();
  });
}

void stof_plan_destroy(stof_plan* plan) { delete plan; }
