// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/random_problem.h"

#include <fmt/format.h>

#include <random>

#include "stof/error.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  ProblemShape shape() {
    constexpr std::int64_t kHeadDims[] = {1, 3, 8, 16, 17, 32, 33, 40, 64, 64, 80, 128, 200, 256};
    constexpr DType kDTypes[] = {DType::f32, DType::f32, DType::f16, DType::bf16};
    ProblemShape what;
    AttentionShape& s = what.shape;
    s.batch = 1 + below(3);
    s.kv_heads = 1 + below(2);
    s.heads = s.kv_heads * (1 + below(3));
    s.head_dim = kHeadDims[below(std::size(kHeadDims))];
    const std::int64_t longest = s.head_dim > 64 ? 70 : 150;
    s.keys = 1 + below(longest);
    s.queries = below(3) == 0 ? 1 + below(longest) : below(4) == 0 ? 1 : s.keys;
    s.dtype = kDTypes[below(std::size(kDTypes))];
    what.form = static_cast<BatchForm>(below(3));
    what.row_padding = below(2) == 0 ? 0 : below(20);
    if (below(2) == 0) add_lengths(what);
    if (below(3) == 0) what.page_size = 16 << below(5);
    add_softcap(what);
    return what;
  }

  // Few queries of heads that share keys, over more keys than one CTA takes.
  ProblemShape few_queries() {
    constexpr std::int64_t kHeadDims[] = {8, 24, 64, 64, 80, 128, 128, 200, 256};
    ProblemShape what;
    AttentionShape& s = what.shape;
    s.batch = below(10) == 0 ? 70 : 1 + below(4);
    s.kv_heads = 1 + below(2);
    s.heads = s.kv_heads * (1 + below(8));
    s.head_dim = kHeadDims[below(std::size(kHeadDims))];
    s.queries = below(2) == 0 ? 1 : 1 + below(16);
    s.keys = s.queries + (s.batch == 70 ? below(60) : below(3) == 0 ? below(2000) : below(300));
    s.dtype = below(2) == 0 ? DType::f16 : DType::bf16;
    what.form = static_cast<BatchForm>(below(3));
    what.row_padding = below(3) * 8;
    if (below(2) == 0) add_lengths(what);
    if (below(2) == 0) what.page_size = 16 << below(5);
    what.lengths_on_device = below(4) == 0 && (what.page_size > 0 || what.form != BatchForm::packed);
    add_softcap(what);
    return what;
  }

 private:
  // Of scores that are normally distributed: one that bends all of them, and one that bends the largest a little.
  void add_softcap(ProblemShape& what) {
    if (below(4) != 0) return;
    what.softcap = below(2) == 0 ? 0.5f : 5.f;
    what.shape.capped = below(4) != 0;  // else a plan for others takes it
  }

  void add_lengths(ProblemShape& what) {
    const bool same = what.shape.queries == what.shape.keys;
    for (std::int64_t item = 0; item < what.shape.batch; ++item) {
      what.q_lengths.push_back(static_cast<std::int32_t>(below(what.shape.queries + 1)));
      what.kv_lengths.push_back(same ? what.q_lengths.back() : static_cast<std::int32_t>(below(what.shape.keys + 1)));
    }
  }

  std::mt19937 random_;
};

std::string name_of_problem(unsigned seed, const std::string& kernel, const ProblemShape& what) {
  const AttentionShape& s = what.shape;
  return fmt::format("seed {} {} B {} H {}/{} N {} M {} d {} {} form {} pages of {} softcap {}{}", seed, kernel,
                     s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim, name_of(s.dtype),
                     static_cast<int>(what.form), what.page_size, what.softcap, s.capped ? " planned" : "");
}

}  // namespace

RandomOutcome try_random_problem(unsigned seed, const Device& device, const std::string& kernel, RandomKind kind) {
  RandomProblems problems(seed);
  ProblemShape what = kind == RandomKind::any ? problems.shape() : problems.few_queries();
  // Of the kernels of a GPU one reads lengths there.
  if (device.backend->memory != nullptr && kernel != "decode_attention") what.lengths_on_device = false;
  const AttentionShape& s = what.shape;
  const MaskExtent extent{.queries = s.queries, .keys = s.keys, .batch = s.batch, .heads = s.heads};
  const Mask mask = RandomMask(seed, extent, what.q_lengths.empty()).expression(2);
  const Problem problem(what, seed);
  try {
    run_on(device, Attention(mask, s, device, {.kernel = kernel}), problem);
    const std::string wrong = difference_from_definition(problem, mask);
    if (wrong.empty()) return {.taken = true, .wrong = {}};
    return {.taken = true, .wrong = fmt::format("{} {}: {}", name_of_problem(seed, kernel, what), mask.text(), wrong)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::unsupported) return {};
    return {.taken = false, .wrong = fmt::format("{}: {}", name_of_problem(seed, kernel, what), error.what())};
  }
}

}  // namespace stof
