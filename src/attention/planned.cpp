// SPDX-License-Identifier: Apache-2.0
#include "src/attention/planned.h"

#include "src/attention/alike_heads.h"
#include "src/attention/live_share.h"
#include "src/attention/residue_items.h"
#include "src/base/error.h"
#include "src/layout/pack.h"
#include "src/mask/mask_bands.h"
#include "src/mask/residues.h"

namespace stof {
namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;  // keys and rows are 32-bit inside kernels
constexpr std::int64_t kFewRows = 1024;                     // whose keys are cut into many parts

// Items share one layout when the mask is the same for all.
BoundMask bind(const Mask& mask, const AttentionShape& shape) {
  return BoundMask::once_for_like_items(
      mask, {.queries = shape.queries, .keys = shape.keys, .batch = shape.batch, .heads = shape.heads});
}

void check_range(std::string_view name, std::int64_t value, std::int64_t first, std::int64_t last) {
  if (value < first || value > last)
    fail(ErrorKind::invalid_argument, "attention: {} = {}; accepted: {}..{}", name, value, first, last);
}

// By residue class, or in two plans: kernels then see other distances between keys and queries than there are.
bool may_lie_apart(const AttentionShape& shape) { return shape.tree_queries == 0 && !shape.biased; }

PackedMask pack(const BoundMask& mask, const AttentionShape& shape, const AttentionPlan& plan) {
  PackedMask packed;
  packed.kind = plan.layout;
  packed.shape = shape;
  if (plan.layout == LayoutKind::block) packed.blocks = pack_blocks(mask, plan.format);
  else packed.rows = pack_rows(mask);
  return packed;
}

// For items of so many queries at most, that begin anywhere among the positions.
PackedMask pack_for_chunks(const Mask& mask, const AttentionShape& shape, BlockFormat format,
                           std::int64_t most_queries) {
  format.row_origin = RowOrigin::first_row;
  const BoundMask bound = bind(mask, shape);
  return {.blocks = pack_blocks(bound, format),
          .rows = {},
          .shape = shape,
          .most_queries = most_queries,
          .spans = row_spans(bound).value_or(std::vector<RowSpan>{})};
}

View view_of_class(const ResidueView& view, const AttentionShape& shape) {
  const ClassExtent extent = class_extent(shape.queries, shape.keys, view.residues);
  AttentionShape of_class = shape;
  of_class.batch = shape.batch * view.residues;
  of_class.queries = extent.queries, of_class.keys = extent.keys;
  const std::int64_t runs = runs_of_classes(shape.queries, shape.keys, view.residues);
  return {view.residues, runs, of_class, bind(view.of_class, of_class)};
}

Planned arrange(PackedMask packed, const AttentionShape& shape, Choice choice, const Device& device) {
  Planned planned{.choice = std::move(choice), .positions = {shape.keys - shape.queries, shape.keys}, .arranged = {}};
  planned.arranged = planned.choice.kernel->arrange(planned.choice.plan, std::move(packed), device);
  return planned;
}

// of_chunks: rows may be those of items that have fewer queries than keys.
Planned arrange(const View& view, const AttentionShape& shape, Choice choice, const Device& device, bool of_chunks) {
  PackedMask packed = pack(view.mask, view.shape, choice.plan);
  if ((choice.kernel->takes_chunks || choice.kernel->takes_spans) && view.residues == 1 && of_chunks)
    packed.spans = row_spans(view.mask).value_or(std::vector<RowSpan>{});
  return arrange(std::move(packed), shape, std::move(choice), device);
}

Planned arrange(const View& view, const AttentionShape& shape, Choice choice, const Device& device) {
  return arrange(view, shape, std::move(choice), device, shape.queries < shape.keys || shape.tree_queries > 0);
}

Choice choose_rows(const View& view, RowOrigin origin, const Device& device, std::string_view kernel) {
  const AttentionProblem problem = problem_of(view, device, origin);
  Choice choice = consider(device.backend->attention, problem, device.caps, kernel);
  const double more_launches = device.backend->launch_us * static_cast<double>(view.runs - 1);
  const auto as_viewed = [&](AttentionPlan& plan) {
    plan.format.row_origin = origin;
    plan.residues = view.residues;
    plan.predicted_us += more_launches;
  };
  as_viewed(choice.plan);
  for (AttentionPlan& plan : choice.considered) as_viewed(plan);
  return choice;
}

Choice choose_view(const View& view, const Device& device, std::string_view kernel) {
  Choice choice = choose_rows(view, RowOrigin::zero, device, kernel);
  if (!first_row_saves_blocks(view.mask.extent())) return choice;
  Choice from_first = choose_rows(view, RowOrigin::first_row, device, kernel);
  std::erase_if(from_first.considered,
                [&](const AttentionPlan& plan) { return plan.layout == LayoutKind::row && plan != from_first.plan; });
  return better(std::move(choice), std::move(from_first));
}

Choice choose_between(const View& plain, const std::optional<View>& by_residue, const Device& device,
                      std::string_view kernel) {
  Choice choice = choose_view(plain, device, kernel);
  return settled(by_residue ? better(std::move(choice), choose_view(*by_residue, device, kernel)) : std::move(choice));
}

// Of a kernel that is asked for, it takes all of the mask.
Choice or_sum(Choice choice, const Mask& mask, const AttentionShape& shape, const Device& device,
              std::string_view kernel) {
  if (kernel != "auto" || device.backend->sums == nullptr) return choice;
  const std::vector<SumView> views = views_as_sum(mask, shape);
  if (Refusal why = device.backend->sums->refuses(shape); why && !views.empty())
    choice.refusals.push_back({"two plans, added", *std::move(why)});
  for (const SumView& view : views)
    if (std::optional<Choice> sum = choose_sum(view, shape, device))
      choice = better(std::move(choice), *std::move(sum));
  return choice;
}

const AttentionKernel& kernel_named(std::string_view name, const Device& device) {
  for (const AttentionKernel& kernel : device.backend->attention)
    if (kernel.name == name) return kernel;
  bug("a plan of no kernel", __FILE__, __LINE__);
}

Planned arrange_sum(const SumView& view, const AttentionShape& shape, Choice choice, const Device& device) {
  const AttentionPlan& rest = choice.plan.rest.front();
  const Choice of_rest{&kernel_named(rest.kernel, device), rest, {}, {}};
  auto planned_rest = std::make_shared<const Planned>(replan(view.rest, shape, device, of_rest));
  Planned planned = arrange(view.combs, shape, std::move(choice), device);
  planned.rest = std::move(planned_rest);
  planned.room = device.backend->sums->reserve(shape, device);
  return planned;
}

}  // namespace

std::string why_not_compiled(const AttentionShape& shape, const Device& device) {
  const auto why_not = device.backend->why_not_compiled;
  return changes_scores(shape) && why_not != nullptr ? why_not(device) : "";
}

AttentionProblem problem_of(const View& view, const Device& device, RowOrigin origin) {
  AttentionProblem problem{.shape = view.shape,
                           .alike_heads = view.shape.biased ? 1 : alike_heads(view.mask, view.shape)};
  const MaskBands bands(view.mask, origin);
  problem.stats = measure(bands, device.backend->attention_block_sizes(view.shape, problem.alike_heads));
  problem.why_not_compiled = why_not_compiled(view.shape, device);
  problem.residues = view.residues;
  problem.uneven = view.runs > 1;
  problem.by_spans = view.shape.tree_queries > 0 && row_spans(view.mask).has_value();
  if (device.backend->measures_live) problem.partial_live = partial_live_share(view.mask);
  if (device.backend->measures_keys) {
    problem.band_widths = measure_bands(bands, problem.stats);
    problem.key_pieces = measure_pieces(bands, problem.stats);
    problem.key_tiles = measure_tiles(bands, problem.stats);
    if (view.residues == 1 && view.shape.queries < std::min(view.shape.keys, kFewRows))
      problem.spans = row_spans(view.mask).value_or(std::vector<RowSpan>{});
  }
  return problem;
}

View plain_view(const Mask& mask, const AttentionShape& shape) { return {1, 1, shape, bind(mask, shape)}; }

std::optional<View> view_by_residue(const Mask& mask, const AttentionShape& shape) {
  if (shape.queries == 0 || shape.keys == 0 || !may_lie_apart(shape)) return std::nullopt;
  const std::optional<ResidueView> view = residue_view(mask);
  if (!view || shape.batch > kMaxLength / view->residues) return std::nullopt;
  return view_of_class(*view, shape);
}

void check_shape(const AttentionShape& shape) {
  check_range("batch", shape.batch, 1, kMaxLength);
  check_range("heads", shape.heads, 1, kMaxLength);
  check_range("kv_heads", shape.kv_heads, 1, kMaxLength);
  check_range("queries", shape.queries, 0, kMaxLength);
  check_range("keys", shape.keys, 0, kMaxLength);
  check_range("head_dim", shape.head_dim, 1, kMaxHeadDim);
  check_range("tree_queries", shape.tree_queries, 0, shape.queries);
  if (shape.heads % shape.kv_heads != 0)
    fail(ErrorKind::invalid_argument, "attention: heads = {} is not a multiple of kv_heads = {}", shape.heads,
         shape.kv_heads);
  if (shape.dtype != DType::f32 && shape.dtype != DType::f16 && shape.dtype != DType::bf16)
    fail(ErrorKind::invalid_argument, "attention: dtype {}; accepted: f32, f16, bf16", name_of(shape.dtype));
}

std::vector<SumView> views_as_sum(const Mask& mask, const AttentionShape& shape) {
  std::vector<SumView> views;
  if (shape.queries == 0 || shape.keys == 0 || !may_lie_apart(shape)) return views;
  for (const CombSplit& split : comb_splits(mask))
    if (shape.batch <= kMaxLength / split.combs.residues)
      views.push_back({view_of_class(split.combs, shape), split.rest});
  return views;
}

std::optional<Choice> choose_sum(const SumView& view, const AttentionShape& shape, const Device& device) {
  const SumOperations* const sums = device.backend->sums;
  if (sums == nullptr || sums->refuses(shape)) return std::nullopt;
  Choice choice = settled(choose_view(view.combs, device, "auto"));
  AttentionPlan& plan = choice.plan;
  plan.rest = {choose_single(view.rest, shape, device, "auto").plan};
  plan.predicted_us += plan.rest.front().predicted_us + sums->predicted_us(shape, device.caps);
  plan.reason = fmt::format("of combs by class, and the rest by itself, both added: {}", plan.reason);
  choice.considered = {plan};
  return choice;
}

Choice choose_single(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  check_shape(shape);
  return choose_between(plain_view(mask, shape), view_by_residue(mask, shape), device, kernel);
}

Choice choose_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  return or_sum(choose_single(mask, shape, device, kernel), mask, shape, device, kernel);
}

Planned plan_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  check_shape(shape);
  const View plain = plain_view(mask, shape);
  const std::optional<View> by_residue = view_by_residue(mask, shape);
  Choice choice = or_sum(choose_between(plain, by_residue, device, kernel), mask, shape, device, kernel);
  if (!choice.plan.rest.empty()) return replan(mask, shape, device, choice);
  const bool viewed = choice.plan.residues > 1;
  return arrange(viewed ? *by_residue : plain, shape, std::move(choice), device);
}

Choice choose_plain(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  check_shape(shape);
  const View plain = plain_view(mask, shape);
  Choice choice = choose_view(plain, device, kernel);
  if (choice.kernel == nullptr && view_by_residue(mask, shape)) choice = choose_view(plain, device, "auto");
  return settled(std::move(choice));
}

Planned plan_plain(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  return arrange(plain_view(mask, shape), shape, choose_plain(mask, shape, device, kernel), device);
}

Planned plan_every_position(const Mask& mask, const AttentionShape& shape, const Device& device,
                            std::string_view kernel) {
  AttentionShape positions = shape;
  positions.queries = shape.keys;
  return replan(mask, positions, device, settled(choose_view(plain_view(mask, shape), device, kernel)));
}

Planned plan_pages(const Mask& mask, const AttentionShape& shape, const Device& device) {
  const View plain = plain_view(mask, shape);
  const AttentionProblem problem = problem_of(plain, device);
  std::optional<Choice> best;
  for (const AttentionKernel& kernel : device.backend->attention) {
    if (!kernel.reads_pages || kernel.over_pages != nullptr || kernel.refuses(problem, device.caps)) continue;
    Choice choice = choose_view(plain, device, kernel.name);
    best = best ? better(std::move(*best), std::move(choice)) : std::move(choice);
  }
  STOF_CHECK(best.has_value());
  return arrange(plain, shape, std::move(*best), device);
}

std::optional<Planned> plan_sooner_in_pages(const Planned& plan, const Mask& mask, const AttentionShape& shape,
                                            const Device& device) {
  const auto us = [](const AttentionKernel& kernel, const AttentionPlan& of) {
    return of.predicted_us + kernel.pages_us(of);
  };
  const Choice& choice = plan.choice;
  if (choice.kernel->pages_us == nullptr || choice.plan.residues > 1) return std::nullopt;
  const AttentionKernel* best = nullptr;
  double best_us = us(*choice.kernel, choice.plan);
  for (const AttentionPlan& other : choice.considered) {
    const AttentionKernel& kernel = kernel_named(other.kernel, device);
    if (kernel.over_pages == nullptr || kernel.pages_us == nullptr || other.residues > 1) continue;
    if (const double other_us = us(kernel, other); other_us < best_us) best = &kernel, best_us = other_us;
  }
  if (best == nullptr) return std::nullopt;
  Planned planned = plan_plain(mask, shape, device, best->name);
  if (best->over_pages(planned.arranged) != OverPages::reads_anywhere) return std::nullopt;
  return planned;
}

Planned replan(const Mask& mask, const AttentionShape& shape, const Device& device, const Choice& choice,
               std::int64_t most_queries) {
  const std::int64_t residues = choice.plan.residues;
  if (!choice.plan.rest.empty()) {
    for (const SumView& view : views_as_sum(mask, shape))
      if (view.combs.residues == residues) return arrange_sum(view, shape, choice, device);
    bug("a sum that the mask is not", __FILE__, __LINE__);
  }
  if (most_queries > 0 && residues == 1 && choice.kernel->takes_chunks)
    return arrange(pack_for_chunks(mask, shape, choice.plan.format, most_queries), shape, choice, device);
  return arrange(residues > 1 ? view_of_class(residue_view(mask).value(), shape) : plain_view(mask, shape), shape,
                 choice, device,
                 most_queries > 0 || shape.queries < shape.keys || shape.tree_queries > 0 ||
                     choice.kernel->few_queries > 0);  // whose layouts over every position are of few rows
}

}  // namespace stof
