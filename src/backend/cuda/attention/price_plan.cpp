// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/price_plan.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "src/backend/cuda/attention/band.h"
#include "src/backend/cuda/attention/decode.h"
#include "src/backend/cuda/attention/gather.h"
#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/mma.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/stream.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

template <class Instance>
bool has(std::span<const Instance> instances, std::string_view name, DType dtype) {
  return std::any_of(instances.begin(), instances.end(),
                     [&](const Instance& instance) { return name_of(instance, dtype) == name; });
}

}  // namespace

bool is_priced(const NamedPlan& plan, DType dtype) {
  if (plan.kernel == kStreamAttention) return has(stream_instances(), plan.instance, dtype);
  if (plan.kernel == kMmaAttention) return has(mma_instances(), plan.instance, dtype);
  if (plan.kernel == kGatherAttention) return has(gather_instances(), plan.instance, dtype);
  if (plan.kernel == kBandAttention) return has(band_instances(), plan.instance, dtype);
  return plan.kernel == kDecodeAttention;
}

std::string costs_name(const NamedPlan& plan, DType dtype) {
  if (plan.kernel == kDecodeAttention) return "decode";
  std::string name = plan.instance;
  const std::string part = fmt::format("_{}", name_of(dtype));
  const std::size_t at = name.find(part);
  STOF_CHECK(at != std::string::npos);
  name.erase(at, part.size());
  // Stacking heads costs a row block nothing.
  constexpr std::string_view kStacked = "_stacked";
  return name.ends_with(kStacked) ? name.substr(0, name.size() - kStacked.size()) : name;
}

Prediction prediction_of(const AttentionProblem& problem, const NamedPlan& plan) {
  const DType dtype = problem.shape.dtype;
  if (plan.kernel == kStreamAttention) {
    const StreamInstance& instance = instance_named(stream_instances(), plan.instance, dtype);
    const ListedTiles listed = stream_tiles(problem, *stats_of(problem, instance), heads_to_stack(problem, instance));
    const SplitEstimate split = estimate_split(problem, listed, instance.tiles, plan.splits);
    return [&problem, &instance, split, splits = plan.splits](const Pricing& p) {
      // Of the costs in use, which decide how it runs, not of those that are tried.
      return cut_by_call(problem, instance, p.caps, splits) ? predict_spans(problem, p, instance)
                                                            : predict_stream(problem, p, instance, split);
    };
  }
  if (plan.kernel == kMmaAttention) {
    const MmaInstance& instance = instance_named(mma_instances(), plan.instance, dtype);
    const ListedTiles listed = mma_tiles(problem, *stats_of(problem, instance.parts));
    const SplitEstimate split = estimate_split(problem, listed, 1, plan.splits);
    return [&problem, &instance, split](const Pricing& p) { return predict_mma(problem, p, instance, split); };
  }
  if (plan.kernel == kGatherAttention) {
    const GatherInstance& instance = instance_named(gather_instances(), plan.instance, dtype);
    const int units = most_units_of(problem, instance, plan.splits);
    return [&problem, &instance, units](const Pricing& p) { return predict_gather(problem, p, instance, units); };
  }
  if (plan.kernel == kBandAttention) {
    const BandInstance& instance = instance_named(band_instances(), plan.instance, dtype);
    return [&problem, &instance](const Pricing& p) { return predict_band(problem, p, instance); };
  }
  STOF_CHECK(plan.kernel == kDecodeAttention);
  const DecodeInstance& instance = instance_named(decode_instances(), plan.instance, dtype);
  return [&problem, &instance](const Pricing& p) { return predict_decode(problem, p, instance); };
}

}  // namespace stof::cuda
