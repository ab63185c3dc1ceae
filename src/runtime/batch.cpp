// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/batch.h"

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/base/memory.h"

namespace stof {
namespace {

void check(const TokenBatch& batch, const TextLimits& limits) {
  const auto& [ids, offsets] = batch;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != std::ssize(ids))
    fail(ErrorKind::invalid_argument, "offsets run from {} to {}; accepted: from 0 to the number of ids, {}",
         offsets.empty() ? 0 : offsets.front(), offsets.empty() ? 0 : offsets.back(), ids.size());
  for (std::int64_t text = 0; text < batch.texts(); ++text) {
    const auto i = static_cast<std::size_t>(text);
    const std::int64_t length = std::int64_t{offsets[i + 1]} - offsets[i];
    if (length < 1 || length > limits.longest)
      fail(ErrorKind::invalid_argument, "text {} has {} tokens; accepted: 1 to {}", text, length, limits.longest);
  }
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= limits.vocabulary)
      fail(ErrorKind::invalid_argument, "token {} has id {}; accepted: 0 to {}", i, ids[i], limits.vocabulary - 1);
}

}  // namespace

void TokenBatch::add(std::span<const std::int32_t> text) {
  if (ids.size() + text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    fail(ErrorKind::invalid_argument, "a batch of more than {} tokens; split it",
         std::numeric_limits<std::int32_t>::max());
  ids.insert(ids.end(), text.begin(), text.end());
  offsets.push_back(static_cast<std::int32_t>(ids.size()));
}

RowBatch make_rows(const TokenBatch& batch, const TextLimits& limits, bool padded) {
  check(batch, limits);
  RowBatch rows{.texts = batch.texts(),
                .padded = padded,
                .tokens = {},
                .positions = {},
                .segments = {},
                .offsets = batch.offsets,
                .lengths = {}};
  for (std::size_t i = 0; i + 1 < batch.offsets.size(); ++i) {
    rows.lengths.push_back(batch.offsets[i + 1] - batch.offsets[i]);
    rows.longest = std::max<std::int64_t>(rows.longest, rows.lengths.back());
  }
  rows.rows = padded ? rows.texts * rows.longest : std::ssize(batch.ids);
  check_memory(fmt::format("{} texts, {}of {} tokens together", rows.texts, padded ? "padded, " : "", rows.rows),
               3.0 * sizeof(std::int32_t) * static_cast<double>(rows.rows));
  rows.tokens.assign(static_cast<std::size_t>(rows.rows), 0);
  rows.positions.assign(static_cast<std::size_t>(rows.rows), 0);
  rows.segments.assign(static_cast<std::size_t>(rows.rows), 0);
  for (std::int64_t text = 0; text < rows.texts; ++text) {
    const std::int32_t* ids = batch.ids.data() + batch.offsets[static_cast<std::size_t>(text)];
    const std::int32_t length = rows.lengths[static_cast<std::size_t>(text)];
    auto position = static_cast<std::int32_t>(limits.first_table_row(length));
    const auto padding = static_cast<std::int32_t>(limits.first_position - 1);  // a token and its position; -1 is none
    for (std::int32_t p = 0; p < length; ++p) {
      const auto row = static_cast<std::size_t>(rows.first_row(text) + p);
      rows.tokens[row] = ids[p];
      rows.positions[row] = ids[p] == padding ? padding : position++;
    }
  }
  return rows;
}

}  // namespace stof
