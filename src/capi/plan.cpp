// SPDX-License-Identifier: Apache-2.0
// Plans in C: made, prepared, described.
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "src/attention/describe.h"
#include "src/backend/contract.h"
#include "src/capi/array.h"
#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/capi/interrupt.h"

namespace {

using stof::capi::given;
using stof::capi::guarded;
using stof::capi::guarded_planning;

stof::AttentionShape shape_of(const stof_shape* given_shape, std::string_view name) {
  const stof_shape shape = stof::capi::given_grown(
      given_shape, {offsetof(stof_shape, capped), offsetof(stof_shape, tree_queries), offsetof(stof_shape, biased)},
      name);
  return {.batch = shape.batch,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .queries = shape.queries,
          .keys = shape.keys,
          .head_dim = shape.head_dim,
          .dtype = stof::capi::dtype_of(fmt::format("{}.dtype", name), shape.dtype),
          .capped = shape.capped != 0,
          .tree_queries = shape.tree_queries,
          .biased = shape.biased != 0};
}

std::string description_of(const stof_plan& plan, const std::string& mask) {
  const stof::AttentionShape& s = plan.shape;
  nlohmann::ordered_json json{{"mask", mask}, {"device", plan.device.caps.name}};
  json["shape"] = {{"batch", s.batch},          {"heads", s.heads},   {"kv_heads", s.kv_heads},
                   {"queries", s.queries},      {"keys", s.keys},     {"head_dim", s.head_dim},
                   {"dtype", name_of(s.dtype)}, {"capped", s.capped}, {"tree_queries", s.tree_queries},
                   {"biased", s.biased}};
  const stof::AttentionPlan &chosen = plan.attention.plan(), &for_pages = plan.attention.plan_for_pages();
  json.update(stof::describe(chosen));
  json["for_pages"] = nullptr;
  if (&for_pages != &chosen) json["for_pages"] = stof::describe(for_pages);
  // A mask names files, and names of files may be any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

constexpr std::array kKinds{stof::TableKind::lists, stof::TableKind::blocks, stof::TableKind::bits,
                            stof::TableKind::packed};
static_assert(kKinds[STOF_TABLE_LISTS] == stof::TableKind::lists);
static_assert(kKinds[STOF_TABLE_BLOCKS] == stof::TableKind::blocks);
static_assert(kKinds[STOF_TABLE_BITS] == stof::TableKind::bits);
static_assert(kKinds[STOF_TABLE_PACKED] == stof::TableKind::packed);
static_assert(sizeof(stof_table_status) == sizeof(stof::TableStatus));

stof::MaskTable table_of(const stof_table* given_table) {
  const stof_table& table = stof::capi::given_sized(given_table, "stof_plan_create_table: table");
  if (table.kind < 0 || table.kind >= int32_t{kKinds.size()})
    stof::fail(stof::ErrorKind::invalid_argument,
               "stof_plan_create_table: table.kind is {}; accepted: 0..{}, a stof_table_kind", table.kind,
               kKinds.size() - 1);
  return {.kind = kKinds[static_cast<std::size_t>(table.kind)],
          .batch = table.batch,
          .heads = table.heads,
          .block_q = table.block_q,
          .block_kv = table.block_kv,
          .width = table.width,
          .capacity = table.capacity};
}

std::string text_of(const stof::MaskTable& table, const stof::Mask& limit) {
  constexpr std::array kNames{"lists", "blocks", "bits", "packed"};
  return fmt::format("table({}) & ({})", kNames.at(static_cast<std::size_t>(table.kind)), limit.text());
}

}  // namespace

stof_plan::stof_plan(const stof::MaskTable& table, const stof::Mask& limit, const stof::AttentionShape& the_shape,
                     const stof::Device& the_device)
    : shape(the_shape),
      device(the_device),
      attention(table, limit, shape, device),
      description(description_of(*this, text_of(table, limit))) {}

stof_plan::stof_plan(const stof_mask& mask, const stof::AttentionShape& the_shape, const stof::Device& the_device,
                     const stof::AttentionOptions& options)
    : shape(the_shape),
      device(the_device),
      attention(mask.mask, shape, device, options),
      description(description_of(*this, mask.text)) {}

stof_status stof_plan_create(const stof_mask* mask, const stof_shape* shape, const char* device, const char* kernel,
                             stof_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guarded_planning([&] {
    stof_plan*& handle = given(plan, "stof_plan_create: plan");
    const stof_mask& of_mask = given(mask, "stof_plan_create: mask");
    const stof::AttentionShape of_shape = shape_of(shape, "stof_plan_create: shape");
    const char* const name = &given(device, "stof_plan_create: device");
    handle = new stof_plan(of_mask, of_shape, stof::open_device(name), {.kernel = kernel == nullptr ? "auto" : kernel});
  });
}

stof_status stof_plan_create_table(const stof_table* table, const stof_mask* limit, const stof_shape* shape,
                                   const char* device, stof_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guarded_planning([&] {
    stof_plan*& handle = given(plan, "stof_plan_create_table: plan");
    const stof::MaskTable of_table = table_of(table);
    const stof::AttentionShape of_shape = shape_of(shape, "stof_plan_create_table: shape");
    const char* const name = &given(device, "stof_plan_create_table: device");
    handle = new stof_plan(of_table, limit == nullptr ? stof::all() : limit->mask, of_shape, stof::open_device(name));
  });
}

stof_status stof_plan_update(const stof_plan* plan, const stof_table_contents* contents) {
  return guarded_planning([&] {
    const stof_plan& of_plan = given(plan, "stof_plan_update: plan");
    const stof_table_contents& c = stof::capi::given_sized(contents, "stof_plan_update: contents");
    if (of_plan.device.backend->memory == nullptr) {
      stof::capi::check_host_address("stof_plan_update: contents.", "data", c.data);
      stof::capi::check_host_address("stof_plan_update: contents.", "status", c.status);
      if (c.stream != nullptr)
        stof::fail(stof::ErrorKind::invalid_argument,
                   "stof_plan_update: contents.stream is {}; accepted on the CPU: NULL", c.stream);
    }
    of_plan.attention.update({.data = c.data,
                              .batch_stride = c.batch_stride,
                              .head_stride = c.head_stride,
                              .row_stride = c.row_stride,
                              .status = reinterpret_cast<stof::TableStatus*>(c.status),
                              .stream = c.stream});
  });
}

stof_status stof_plan_prepare(stof_plan* plan, int64_t queries, int64_t keys) {
  return guarded_planning([&] { given(plan, "stof_plan_prepare: plan").attention.prepare(queries, keys); });
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
