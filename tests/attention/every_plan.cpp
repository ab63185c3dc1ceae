// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/every_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/attention/describe.h"
#include "src/attention/host_tensors.h"
#include "src/attention/pages.h"
#include "src/attention/run_plan.h"
#include "src/attention/score_bias.h"
#include "src/layout/pack.h"
#include "src/layout/row_spans.h"

namespace stof {
namespace {

void put_in_pages(AttentionCall& call, std::span<AttentionItem> items, const AttentionArguments& a) {
  call.pages = key_pages(*a.page_table, a.k, a.v);
  call.k_strides = {.head = a.k.strides[1], .row = a.k.strides[2]};
  call.v_strides = {.head = a.v.strides[1], .row = a.v.strides[2]};
  for (AttentionItem& item : items) item.k = item.v = 0;
}

void run_on_view(const Device& device, const AttentionKernel& kernel, const AttentionPlan& plan, const View& view,
                 const Problem& problem) {
  const BoundMask& mask = view.mask;
  PackedMask packed;
  packed.kind = plan.layout;
  if (plan.layout == LayoutKind::block) packed.blocks = pack_blocks(mask, plan.format);
  else packed.rows = pack_rows(mask);
  packed.shape = view.shape;
  if (kernel.takes_spans && view.residues == 1 && view.shape.queries < view.shape.keys)
    packed.spans = row_spans(mask).value_or(std::vector<RowSpan>{});
  const DeviceArguments there(problem.arguments(), device);
  AttentionCall call = problem.call();
  const AttentionArguments& a = there.arguments();
  call.q = a.q.data, call.k = a.k.data, call.v = a.v.data, call.out = a.out.data;
  call.lse = a.lse ? a.lse->as<float>() : nullptr;
  std::vector<AttentionItem> items = problem.items();
  if (mask.extent().batch == 1)
    for (AttentionItem& item : items) item.index = 0;
  call.bias = score_bias(a, view.shape, device);
  if (a.page_table) put_in_pages(call, items, a);
  call.items = items;
  Planned planned{.choice = {&kernel, plan, {}, {}}, .positions = {}, .arranged = {}};
  planned.choice.plan.residues = view.residues;
  planned.arranged = kernel.arrange(plan, std::move(packed), device);
  run_plan(planned, call, device);
  there.copy_back();
}

}  // namespace

ProblemShape shape_of(const Batch& batch, AttentionShape shape, std::int64_t more_keys, float softcap,
                      std::int64_t page_size) {
  shape.batch = std::ssize(batch.lengths);
  shape.queries = batch.lengths.front();
  shape.keys = shape.queries + more_keys;
  shape.capped = softcap > 0;
  ProblemShape what{.shape = shape,
                    .form = batch.form,
                    .row_padding = batch.form == BatchForm::packed ? 8 : 0,
                    .q_lengths = batch.lengths,
                    .kv_lengths = batch.lengths,
                    .page_size = page_size,
                    .softcap = softcap};
  for (std::int32_t& keys : what.kv_lengths) keys += static_cast<std::int32_t>(more_keys);
  return what;
}

Problem problem_of(const Batch& batch, const AttentionShape& shape, std::int64_t more_keys, float softcap,
                   std::int64_t page_size) {
  return Problem(shape_of(batch, shape, more_keys, softcap, page_size), 5);
}

int run_every_plan(const Device& device, const View& view, const Problem& problem,
                   const std::function<void(const std::string& plan)>& check, std::string_view only) {
  std::vector<RowOrigin> origins = {RowOrigin::zero};
  if (first_row_saves_blocks(view.mask.extent())) origins.push_back(RowOrigin::first_row);
  int runs = 0;
  for (const RowOrigin origin : origins) {
    const AttentionProblem asked = problem_of(view, device, origin);
    for (const AttentionKernel& kernel : device.backend->attention) {
      if ((!only.empty() && kernel.name != only) || kernel.refuses(asked, device.caps)) continue;
      for (AttentionPlan& plan : kernel.candidates(asked, device.caps)) {
        plan.format.row_origin = origin;
        problem.poison_outputs();
        run_on_view(device, kernel, plan, view, problem);
        check(fmt::format("{} {} {}x{} from {}, {} heads stacked, {} splits, modulo {}", plan.kernel, plan.instance,
                          plan.format.block_q, plan.format.block_kv, name_of(origin), plan.stacked_heads, plan.splits,
                          view.residues));
        if (testing::Test::HasFatalFailure()) return runs;
        ++runs;
      }
    }
  }
  return runs;
}

}  // namespace stof
