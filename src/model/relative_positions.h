// SPDX-License-Identifier: Apache-2.0
// Relative positions of T5 (Raffel et al. 2020) and MPNet (Song et al. 2020): what a score gains by the bucket that the
// distance of its key falls into.
#pragma once
#include "src/model/model.h"

namespace stof {

// Of a key `distance` places behind its query, or in front of it where that is below 0: half of the buckets are for
// either side, of which the first half are for one distance each, and the others for ranges that grow geometrically up
// to max_distance, from which on all is one. As transformers computes it in f32.
std::int64_t bucket_of(std::int64_t distance, const RelativePositions& relative);

// From which distance on, to either side, all keys are in one bucket with the furthest.
std::int64_t reach_of(const RelativePositions& relative);

// Adds, for each table of a model whose config has relative positions, the values by distance that attention takes
// (stof/relative_bias.h): kByDistance behind the table's name, f32 [heads, 2 * reach + 1]. Throws bad_file where there
// is no table, or one of another shape.
inline constexpr std::string_view kByDistance = ".by_distance";
void add_biases_by_distance(Model& model);

}  // namespace stof
