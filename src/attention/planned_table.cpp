// SPDX-License-Identifier: Apache-2.0
// Plans for masks whose contents come later, as tables: chosen for the fullest table that can come.
#include "src/attention/planned.h"
#include "src/base/error.h"

namespace stof {
namespace {

// Every row block as full as it may be, of whole tiles.
AttentionProblem fullest_problem(const TableForm& form, const AttentionShape& shape, const Device& device) {
  AttentionProblem problem{.shape = shape};
  problem.why_not_compiled = why_not_compiled(shape, device);
  const auto share = static_cast<double>(form.most_tiles) / static_cast<double>(std::max<std::int64_t>(1, form.tiles));
  const auto items = static_cast<double>(form.extent.batch * form.extent.heads);
  MaskStats& stats = problem.stats;
  stats.extent = form.extent;
  stats.groups = static_cast<int>(form.groups.size());
  stats.density = share;
  stats.allowed_pairs = items * share * static_cast<double>(shape.queries) * static_cast<double>(shape.keys);
  stats.keys_seen = static_cast<double>(std::min(shape.keys, form.most_tiles * TableForm::kKeys * form.row_blocks));
  stats.blocks = {{.block_q = TableForm::kFormat.block_q,
                   .block_kv = TableForm::kFormat.block_kv,
                   .empty = 1 - share,
                   .full = share,
                   .touched_density = 1,
                   .heaviest = form.most_tiles,
                   .row_blocks = {{.full = static_cast<double>(form.most_tiles),
                                   .count = form.extent.batch * form.extent.heads * form.row_blocks}}}};
  problem.from_table = true;
  return problem;
}

}  // namespace

PlannedTable plan_table(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device) {
  check_shape(shape);
  if (shape.tree_queries > 0)
    fail(ErrorKind::unsupported, "attention: tree_queries = {} with a plan of a table; accepted: 0",
         shape.tree_queries);
  const MaskExtent extent{.queries = shape.queries, .keys = shape.keys, .batch = shape.batch, .heads = shape.heads};
  BoundMask bound = table.batch == 1 ? BoundMask::once_for_like_items(limit, extent) : BoundMask(limit, extent);
  TableForm form = form_of(table, bound, shape.kv_heads);
  Planned planned{.choice = choose(device.backend->attention, fullest_problem(form, shape, device), device.caps),
                  .positions = {form.extent.offset(), form.extent.keys},
                  .arranged = {}};
  if (const auto reserve = planned.choice.kernel->reserve)
    planned.arranged = reserve(planned.choice.plan, {form, bound, shape}, device);
  return {std::move(bound), std::move(form), std::make_shared<const Planned>(std::move(planned))};
}

std::shared_ptr<const Planned> pack_contents(const PlannedTable& table, const TableContents& contents,
                                             const AttentionShape& shape, const Device& device) {
  PackedMask packed;
  packed.shape = shape;
  packed.blocks = pack_table(table.form, contents, table.limit);
  Planned planned = *table.planned;
  planned.arranged = planned.choice.kernel->arrange(planned.choice.plan, std::move(packed), device);
  return std::make_shared<const Planned>(std::move(planned));
}

}  // namespace stof
