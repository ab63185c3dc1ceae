// SPDX-License-Identifier: Apache-2.0
// What launches take that are cut into parts call by call.
#include "src/backend/cuda/attention/cost_terms.h"
#include "src/backend/cuda/attention/span_split.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

// Of adding parts up one after the other, from where on a grid behind does it sooner, and finding row blocks by spans,
// which it takes, costs less than it gains.
constexpr double kLongSumUs = 3;

}  // namespace

bool sums_behind(const ListCosts& costs, int splits) { return costs[ListTerm::merge] * (splits - 1) >= kLongSumUs; }

bool cut_by_call(const AttentionProblem& problem, const StreamInstance& instance, const DeviceCaps& caps, int splits) {
  return !problem.spans.empty() && !changes_scores(problem.shape) && sums_behind(costs_of(instance, caps), splits);
}

double predict_spans(const AttentionProblem& problem, const Pricing& pricing, const StreamInstance& instance) {
  const AttentionShape& s = problem.shape;
  const int heads = heads_to_stack(problem, instance);
  const ListCosts& costs = cost_of(pricing.table.stream, stream_instances(), instance);
  SpanForm form = span_form(instance, heads, costs, pricing.caps);
  form.rows = problem.spans;
  form.first_position = narrow<int>(s.keys - s.queries, "first position");
  const auto queries = narrow<int>(s.queries, "queries"), keys = narrow<int>(s.keys, "keys");
  const SplitTime time = time_split(form, {.queries = std::span(&queries, 1),
                                           .keys = std::span(&keys, 1),
                                           .slices_of_item = narrow<int>(s.batch * s.heads / heads, "slices")});
  // Row blocks take the same part of their keys one after the other.
  const bool apart = heads > 1 && time.split.row_blocks > 1;
  const double again = apart ? times_from_memory(traffic_bytes(problem) / time.split.parts) : 1;
  const double work = std::max(time.us * (apart ? times_apart(instance) : 1),
                               power_us(s, time.steps * instance.tiles * instance.parts));
  return costs[ListTerm::launch] +
         together(work, costs[ListTerm::traffic] * again * traffic_us(problem), costs[ListTerm::overlap]);
}

}  // namespace stof::cuda
