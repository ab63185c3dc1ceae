// SPDX-License-Identifier: Apache-2.0
// Times are those of an H200, of bench/results/h200-side-by-side.txt.
#include "src/backend/cuda/attention/side_by_side.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/backend/cuda/attention/decode.h"
#include "src/backend/cuda/attention/decode_mask.h"
#include "src/backend/cuda/attention/decode_split.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/stream.h"

namespace stof::cuda {
namespace {

// Fitted to the first part of that file, by the logarithms of what is predicted over what was measured: what each of
// two launches takes besides its work, and bytes a microsecond from the memory and from the L2.
constexpr double kLeadingUs = 8, kFollowingUs = 13;
constexpr double kFromMemory = 4.2e6, kFromCache = 6.4e6;

// By itself on so many of the multiprocessors.
struct LeadingTime {
  double us, bytes;  // bytes: that it reads from the L2
};
LeadingTime time_on(const LeadingWork& work, int cores, int of_cores) {
  const SplitTime time = time_split(work.form, {.queries = work.queries,
                                                .keys = work.keys,
                                                .slices_of_item = work.slices_of_item,
                                                .key_step = work.key_step,
                                                .share = static_cast<double>(cores) / of_cores});
  constexpr double kOfTile = 64 * 2 * 2;  // times the head dimension
  return {kLeadingUs + time.us, time.steps * work.instance.tiles * work.instance.head_dim * kOfTile};
}

double following_us(const FollowingWork& work, double bytes_us) {
  return kFollowingUs + std::max(work.bytes / kFromMemory, (work.bytes + work.begin_bytes) / bytes_us);
}

// Both ask the L2 for keys: the one as fast as it multiplies, the other as fast as the memory brings them.
double side_by_side_us(const LeadingTime& leading, const FollowingWork& following, int rest) {
  constexpr double kSharpness = 6;  // of the maximum: those that are nearly as long make it longer
  const std::array times{leading.us, following_us(following, rest * following.core_bytes_us),
                         (leading.bytes + following.bytes) / kFromCache};
  const double most = *std::ranges::max_element(times);
  double sum = 0;
  for (const double us : times) sum += std::pow(us / most, kSharpness);
  return most * std::pow(sum, 1 / kSharpness);
}

}  // namespace

std::optional<FollowingWork> following_of_decode(const ArrangedMask& arranged, const stof::AttentionCall& call,
                                                 const Device& device) {
  const auto& mask = *static_cast<const DecodeMask*>(arranged.get());
  const bool is_known = call.device_items.count == 0 && call.device_lengths == nullptr && call.workspace == nullptr;
  if (!is_known || !mask.sets.heads.empty() || why_by_rows(mask, call)) return std::nullopt;
  std::int64_t queries = 0, tiles = 0;
  for (const AttentionItem& item : call.items)
    queries = std::max(queries, item.queries), tiles += tiles_of(mask, row_item(item));
  constexpr std::int64_t kMostLaunches = 8;  // of which each has a share of the places
  if (queries == 0 || launches_beside(mask, call, queries) > kMostLaunches) return std::nullopt;
  const DecodeForm& form = mask.forms[form_for(mask.forms, rows_of(mask, queries))];
  const int ctas = decode_device(device.caps, mask.instance, form).ctas;
  constexpr double kOfKey = 2 * 2, kBeginBytes = 1.18e5;  // times the head dimension; of a task
  const double of_sets = mask.sets.sets,
               tasks = of_sets * static_cast<double>(chunks_of(mask, queries) * std::ssize(call.items));
  return FollowingWork{.bytes = of_sets * static_cast<double>(tiles * DecodeList::kTileKeys * call.head_dim) * kOfKey,
                       .begin_bytes = tasks * kBeginBytes,
                       .core_bytes_us = decode_bytes_us(form, mask.instance.head_dim, ctas),
                       .alone_bytes_us = decode_bytes_us(form, mask.instance.head_dim, 1)};
}

std::optional<CoreShares> share_cores(const LeadingWork& leading, const FollowingWork& following, int cores) {
  constexpr double kGain = 0.95;
  // Of the one that leads. With shares near a half some calls took up to a fifth longer, others a few percent less.
  constexpr std::array kShares{1. / 2, 2. / 3, 3. / 4, 5. / 6};
  constexpr double kLeast = 0.85;  // of the time on all cores, times how many more these are: what a share takes
  const double alone = time_on(leading, cores, cores).us;
  double best = kGain * (alone + following_us(following, cores * following.alone_bytes_us));
  std::optional<CoreShares> chosen;
  for (const double share : kShares) {
    const int of_leading = static_cast<int>(std::lround(share * cores)), rest = cores - of_leading;
    if (rest < 1 || following_us(following, rest * following.core_bytes_us) >= best) break;
    if (kLeast * alone / share >= best) continue;
    const double us = side_by_side_us(time_on(leading, of_leading, cores), following, rest);
    if (us < best) best = us, chosen = CoreShares{of_leading, rest};
  }
  return chosen;
}

namespace {

// Launches that depend on each other.
bool possible(const DeviceCaps& caps) { return caps.arch >= 90; }

std::optional<CoreShares> share(const PlannedCall& leading, const PlannedCall& following, const Device& device) {
  if (leading.kernel.name != kStreamAttention || following.kernel.name != kDecodeAttention || !possible(device.caps))
    return std::nullopt;
  const auto work = leading_of_stream(leading.arranged, leading.call);
  if (!work) return std::nullopt;
  const auto beside = following_of_decode(following.arranged, following.call, device);
  return beside ? share_cores(*work, *beside, device.caps.cores) : std::nullopt;
}

}  // namespace

const SideBySide side_by_side{.possible = possible, .share = share};

}  // namespace stof::cuda
