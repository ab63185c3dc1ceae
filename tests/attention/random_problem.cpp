// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/base/error.h"
#include "src/mask/bind.h"
#include "stof/error.h"
#include "tests/attention/devices.h"
#include "tests/attention/expect_attention.h"
#include "tests/attention/random_trees.h"
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
    vary_call(what);
    misalign(what);
    what.lists_on_device = below(4) == 0;
    return what;
  }

  // Many tiles of keys, many row blocks, or few queries over more keys than any CTA takes: lists that are split, row
  // blocks that come from a queue, slices in sections. What kernels refuse for their numbers is left to small problems.
  ProblemShape large() {
    constexpr std::int64_t kHeadDims[] = {32, 64, 64, 96, 128, 192, 256};
    ProblemShape what;
    AttentionShape& s = what.shape;
    s.kv_heads = 1 + below(2);
    s.heads = s.kv_heads * (1 + below(4));
    s.head_dim = kHeadDims[below(std::size(kHeadDims))] - 8 * below(2);
    s.dtype = below(2) == 0 ? DType::f16 : DType::bf16;
    const std::int64_t rows = kLargeElements / (s.heads * s.head_dim);  // of all items together
    switch (below(4)) {
      case 0:  // long
        s.queries = s.keys = 300 + below(std::min<std::int64_t>(2700, rows));
        break;
      case 1:  // over what came before
        s.keys = 600 + below(2000);
        s.queries = 1 + below(std::min(s.keys, rows));
        break;
      case 2:  // decoding
        s.keys = 1000 + below(std::min<std::int64_t>(20000, rows));
        s.queries = 1 + below(16);
        break;
      default:  // many items
        s.queries = s.keys = 1 + below(200);
        s.batch = 1 + below(std::min<std::int64_t>(300, rows / s.keys + 1));
    }
    what.form = static_cast<BatchForm>(below(3));
    what.row_padding = 8 * below(3);
    if (below(2) == 0) add_lengths(what);
    if (below(4) == 0) what.page_size = 16 << below(5);
    add_softcap(what);
    vary_call(what);
    what.lists_on_device = below(4) == 0;
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
    vary_call(what);
    misalign(what);
    return what;
  }

  ProblemShape of_kind(RandomKind kind) {
    ProblemShape what = without_trees(kind);
    add_trees(what);
    add_bias(what);
    return what;
  }

 private:
  static constexpr std::int64_t kLargeAmongAny = 64, kLargeElements = 3'000'000;

  ProblemShape without_trees(RandomKind kind) {
    switch (kind) {
      case RandomKind::any: return below(kLargeAmongAny) == 0 ? large() : shape();
      case RandomKind::few_queries: return few_queries();
      case RandomKind::large: return large();
    }
    STOF_CHECK(false);
  }

  // Last of all: what else a seed draws is what it was without them.
  void add_trees(ProblemShape& what) {
    constexpr std::int64_t kMostQueries = 140;
    if (below(4) != 0) return;
    what.shape.tree_queries = 1 + below(std::min(what.shape.queries, kMostQueries));
    const TreeForm form{
        .one_for_all = below(3) == 0, .queries = 1 + below(what.shape.tree_queries), .more_words = below(3)};
    what.trees = random_trees(what, form, static_cast<unsigned>(below(1000)));
  }

  // And what else there is.
  void add_bias(ProblemShape& what) {
    if (below(5) != 0) return;
    what.shape.biased = true;
    if (below(8) != 0) what.bias_reach = below(3) == 0 ? below(8) : below(what.shape.keys + 100);
  }

  // Tensors that do not begin where the copy engine could read them.
  void misalign(ProblemShape& what) {
    if (below(6) != 0) return;
    for (std::int64_t* const first : {&what.first.q, &what.first.k, &what.first.v, &what.first.out})
      if (below(2) == 0) *first = 1 + below(8);
  }

  // Of scores that are normally distributed: one that bends all of them, and one that bends the largest a little.
  void add_softcap(ProblemShape& what) {
    if (below(4) != 0) return;
    what.softcap = below(2) == 0 ? 0.5f : 5.f;
    what.shape.capped = below(4) != 0;  // else a plan for others takes it
  }

  void vary_call(ProblemShape& what) {
    constexpr float kScales[] = {0.3f, 0.01f, -0.2f, 0.f};
    if (below(4) == 0) what.scale = kScales[below(std::size(kScales))];
    what.values_apart = below(4) == 0;
    what.without_lse = below(6) == 0;
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

// A large problem's rows are compared one by one as far as so many products go.
std::int64_t rows_apart(const AttentionShape& s) {
  constexpr std::int64_t kProducts = 30'000'000;
  return 1 + s.batch * s.heads * s.queries * s.keys * s.head_dim / kProducts;
}

// Arrays of a mask have an element for each pair, of each item and head.
bool fits_arrays(const AttentionShape& s) {
  constexpr std::int64_t kPairs = 8'000'000;
  return s.batch * s.heads * s.queries * s.keys <= kPairs;
}

Mask random_mask(unsigned seed, const ProblemShape& what) {
  const AttentionShape& s = what.shape;
  RandomMask random(seed, {.queries = s.queries, .keys = s.keys, .batch = s.batch, .heads = s.heads},
                    what.q_lengths.empty() && fits_arrays(s));
  const Mask mask = random.expression(2);
  // Most expressions leave rows long; kernels for short ones see long sequences, too.
  constexpr std::int64_t kLong = 200;
  return s.keys > kLong && random.below(2) == 0 ? mask & window(random.below(kLong)) : mask;
}

std::string name_of_problem(unsigned seed, const std::string& kernel, const ProblemShape& what) {
  const AttentionShape& s = what.shape;
  return fmt::format(
      "seed {} {} B {} H {}/{} N {} M {} d {} {} form {} pages of {} softcap {}{} from {} {} {} {}{}{}{}{}{} scale {}",
      seed, kernel, s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim, name_of(s.dtype),
      static_cast<int>(what.form), what.page_size, what.softcap, s.capped ? " planned" : "", what.first.q, what.first.k,
      what.first.v, what.first.out, what.lists_on_device ? " lists on the device" : "",
      what.values_apart ? " values apart" : "", what.without_lse ? " without lse" : "",
      what.trees.queries > 0 ? fmt::format(" trees of {}/{}", what.trees.queries, s.tree_queries) : "",
      s.biased ? fmt::format(" bias to {}", what.bias_reach) : "",
      what.scale.value_or(1 / std::sqrt(static_cast<float>(s.head_dim))));
}

}  // namespace

namespace {

bool is_refusal(const Error& error) {
  return error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::unsupported;
}

// A kernel that was asked for may find only then that it does not take a call, and a mask of one length that an item
// has another. Else a plan that was chosen takes all calls but, under a mask that differs by item, those with lists on
// the device.
bool may_refuse_to_run(const std::string& kernel, const ProblemShape& what, const Mask& mask) {
  const bool on_device = what.lists_on_device || what.lengths_on_device;
  return kernel != "auto" || depends_on_length(mask) || (on_device && depends_on_batch(mask));
}

}  // namespace

RandomOutcome try_random_problem(unsigned seed, const Device& device, const std::string& kernel, RandomKind kind) {
  RandomProblems problems(seed);
  ProblemShape what = problems.of_kind(kind);
  // Of the kernels of a GPU one reads lengths there.
  if (device.backend->memory != nullptr && kernel != "decode_attention") what.lengths_on_device = false;
  const AttentionShape& s = what.shape;
  const Mask mask = random_mask(seed, what);
  bool runs = false;
  try {
    const Attention attention(mask, s, device, {.kernel = kernel});  // refuses before a problem is made
    if (what.lists_on_device) attention.prepare(s.queries, 1);       // items may begin anywhere
    const Problem problem(what, seed);
    runs = true;
    run_on(device, attention, problem);
    const std::string wrong = difference_from_definition(problem, mask, rows_apart(s));
    if (wrong.empty()) return {.taken = true, .wrong = {}};
    return {.taken = true, .wrong = fmt::format("{} {}: {}", name_of_problem(seed, kernel, what), mask.text(), wrong)};
  } catch (const Error& error) {
    if (is_refusal(error) && (!runs || may_refuse_to_run(kernel, what, mask))) return {};
    return {.taken = false,
            .wrong = fmt::format("{} {}: {}", name_of_problem(seed, kernel, what), mask.text(), error.what())};
  }
}

}  // namespace stof
