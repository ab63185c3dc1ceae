// SPDX-License-Identifier: Apache-2.0
// From a mask to something that runs: measure, choose, pack, arrange. Nothing else selects a kernel.
#pragma once
#include <optional>
#include <string_view>

#include "src/attention/choose.h"
#include "src/backend/contract.h"
#include "stof/attention.h"

namespace stof {

struct Planned {
  Choice choice;
  Range positions;  // of the rows that the arranged layout has
  ArrangedMask arranged;
  // Where the plan leaves pairs to AttentionPlan::rest: that plan, and room for its results (SumOperations::reserve).
  std::shared_ptr<const Planned> rest = nullptr;
  std::shared_ptr<const void> room = nullptr;
};

// A mask and a shape as kernels are asked about them: as they are, or by residue class, where each class of an item's
// rows is an item.
struct View {
  std::int64_t residues;
  std::int64_t runs;  // of the kernel, each beside the end of the one before: classes go together by their lengths
  AttentionShape shape;
  BoundMask mask;
};
View plain_view(const Mask& mask, const AttentionShape& shape);
std::optional<View> view_by_residue(const Mask& mask, const AttentionShape& shape);  // where there is such a view
// Differences that a comb's stride divides, by residue class, and the mask without them.
struct SumView {
  View combs;
  Mask rest;
};
std::vector<SumView> views_as_sum(const Mask& mask, const AttentionShape& shape);
// By each of the two the fastest plan. Nothing where the device adds no results of this size.
std::optional<Choice> choose_sum(const SumView& view, const AttentionShape& shape, const Device& device);

// AttentionProblem::why_not_compiled. A device that is only described is another machine, whose compiler nobody knows.
std::string why_not_compiled(const AttentionShape& shape, const Device& device);

// As kernels are asked, all classes at once, its row-blocks from there on.
AttentionProblem problem_of(const View& view, const Device& device, RowOrigin origin = RowOrigin::zero);

// Throws invalid_argument with the value got and the values accepted.
void check_shape(const AttentionShape& shape);

Choice choose_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel);
// Among plans that take all pairs.
Choice choose_single(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel);
Planned plan_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel);
// Never by residue class, nor as a sum; by another kernel where the one that is asked for takes the mask by class
// alone.
Planned plan_plain(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel);

// What plan_plain arranges.
Choice choose_plain(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel);
// By the named kernel, chosen for items of shape.queries at the end of all keys; its layout is over every position.
Planned plan_every_position(const Mask& mask, const AttentionShape& shape, const Device& device,
                            std::string_view kernel);
// The fastest of kernels that read keys in pages themselves. Never by residue class, nor as a sum.
Planned plan_pages(const Mask& mask, const AttentionShape& shape, const Device& device);
// A plan that is predicted to be sooner than this one where keys lie in pages, for items of any length; or nothing.
std::optional<Planned> plan_sooner_in_pages(const Planned& plan, const Mask& mask, const AttentionShape& shape,
                                            const Device& device);

// A table as part of a plan. Its arranged mask has room for contents, or on a device that uses the host's memory is
// null until some are packed.
struct PlannedTable {
  BoundMask limit;  // the form's
  TableForm form;
  std::shared_ptr<const Planned> planned;
};
PlannedTable plan_table(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device);
std::shared_ptr<const Planned> pack_contents(const PlannedTable& table, const TableContents& contents,
                                             const AttentionShape& shape, const Device& device);

// The same choice with a layout over other positions. most_queries: PackedMask's.
Planned replan(const Mask& mask, const AttentionShape& shape, const Device& device, const Choice& choice,
               std::int64_t most_queries = 0);

}  // namespace stof
