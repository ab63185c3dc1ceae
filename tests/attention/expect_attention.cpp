// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/expect_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/attention/reference.h"
#include "src/mask/beginning.h"
#include "tests/attention/tolerance.h"
#include "tests/worst.h"

namespace stof {
namespace {

struct Errors {
  double all = 0, norm = 0, worst_lse = 0, absolute_lse = 0;
  bool wrong_empty = false;
  std::vector<std::pair<double, double>> rows = {};  // squared error and squared norm
};

// What a row of standard normal values has on average: the values of a small problem may cancel, all of them, and
// leave a norm that no rounding error is small against.
double usual_norm(const ReferenceRow& expected) {
  return static_cast<double>(expected.out.size()) * expected.squared_weights;
}

void add_row(const Problem& problem, const AttentionItem& item, std::int64_t head, std::int64_t row,
             const ReferenceRow& expected, Errors& errors) {
  double difference = 0, norm = 0;
  for (std::size_t c = 0; c < expected.out.size(); ++c) {
    const double got = double{problem.get(problem.out, item.out, head, row, static_cast<std::int64_t>(c))};
    difference += (got - expected.out[c]) * (got - expected.out[c]);
    norm += expected.out[c] * expected.out[c];
  }
  norm = std::max(norm, usual_norm(expected));
  errors.all += difference;
  errors.norm += norm;
  if (std::isinf(expected.lse)) errors.wrong_empty = errors.wrong_empty || !(difference == 0);
  else errors.rows.emplace_back(difference, norm);
  if (problem.what().without_lse) return;
  const double lse = double{problem.lse(item, head, row)};
  if (std::isinf(expected.lse)) {
    errors.wrong_empty = errors.wrong_empty || lse != expected.lse;
    return;
  }
  const double off = std::abs(lse - expected.lse), lse_error = off / std::max(1.0, std::abs(expected.lse));
  keep_worst(errors.worst_lse, lse_error);
  keep_worst(errors.absolute_lse, off);
}

// A row whose values cancel has next to no norm of its own: it is measured by what is usual for the problem.
double worst_row(const Errors& errors) {
  const double usual = errors.norm / static_cast<double>(std::max<std::size_t>(1, errors.rows.size()));
  double worst = 0;
  for (const auto& [difference, norm] : errors.rows) {
    const double row = difference == 0 ? 0 : std::sqrt(difference / std::max(norm, usual));
    keep_worst(worst, row);
  }
  return worst;
}

double relative_of_all(const Errors& errors) {
  return errors.norm > 0 ? std::sqrt(errors.all / errors.norm) : errors.all;
}

std::vector<std::int64_t> rows_to_compare(const AttentionItem& item, std::int64_t head, std::int64_t apart) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = (item.place + head) % apart; row < item.queries; row += apart) rows.push_back(row);
  if (rows.empty() || rows.back() + 1 < item.queries) rows.push_back(item.queries - 1);
  return rows;
}

Errors compare(const Problem& problem, const Mask& mask, std::int64_t rows_apart) {
  const AttentionShape& shape = problem.what().shape;
  const AttentionCall call = problem.call();
  Errors errors;
  for (const AttentionItem& item : problem.items()) {
    if (item.queries == 0) continue;
    const BoundMask bound(item.keys == 0 ? all() : beginning_of(mask, item.keys),
                          {.queries = item.queries, .keys = item.keys, .batch = shape.batch, .heads = shape.heads});
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (const std::int64_t row : rows_to_compare(item, head, rows_apart))
        add_row(problem, item, head, row, reference_attention(bound, call, item, head, row), errors);
  }
  return errors;
}

}  // namespace

OutputErrors errors_against_definition(const Problem& problem, const Mask& mask) {
  const Errors errors = compare(problem, mask, 1);
  return {.all = relative_of_all(errors), .worst_row = worst_row(errors), .lse = errors.absolute_lse};
}

std::string difference_from_definition(const Problem& problem, const Mask& mask, std::int64_t rows_apart) {
  const Errors errors = compare(problem, mask, rows_apart);
  const Tolerance allowed = tolerance(problem.what().shape.dtype);
  const double all = relative_of_all(errors);
  if (errors.wrong_empty) return "a row without keys is not 0 with -inf";
  if (!(all <= allowed.all)) return fmt::format("relative error {} > {}", all, allowed.all);
  const double row = worst_row(errors);
  if (!(row <= allowed.worst_row)) return fmt::format("worst row {} > {}", row, allowed.worst_row);
  if (!(errors.worst_lse <= allowed.lse)) return fmt::format("lse {} > {}", errors.worst_lse, allowed.lse);
  if (!problem.padding_is_untouched()) return "memory outside the items was written";
  return "";
}

}  // namespace stof
