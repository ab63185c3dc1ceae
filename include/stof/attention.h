// SPDX-License-Identifier: Apache-2.0
// Masked attention: out = softmax(scale * q k^T, over the allowed keys) v. Plan once, run often.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stof/device.h"
#include "stof/mask.h"
#include "stof/mask_table.h"
#include "stof/relative_bias.h"
#include "stof/tensor.h"

namespace stof {

struct AttentionShape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1;  // heads is a multiple of kv_heads
  std::int64_t queries = 0, keys = 0;               // longest item
  std::int64_t head_dim = 0;                        // 1..256
  DType dtype = DType::f32;                         // f32, f16, bf16: storage; accumulation is fp32
  // Calls will bring a softcap, and the plan is made for them. Plans of tables take one only then, others either way.
  bool capped = false;
  // Calls will bring draft trees (AttentionArguments::tree) of up to so many queries, 0..queries; 0: none will.
  std::int64_t tree_queries = 0;
  // Calls may bring a relative bias (AttentionArguments::relative_bias), and the plan is made for them.
  bool biased = false;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// Items of a packed call that lie where the device reads them: item i has the rows [starts[i], starts[i] + lengths[i])
// of q, k, v and out, at most as many as planned, or none. A call that a CUDA graph records serves whatever they are
// when the graph runs.
struct AttentionRows {
  std::int64_t items = 0;  // at most the planned batch
  const std::int32_t* starts = nullptr;
  const std::int32_t* lengths = nullptr;
  // They were written before the last preceding work that does not overlap the work before it: a copy, or a kernel
  // launched without programmatic serialization. Then the call's kernel may read them while the one in front of it
  // ends.
  bool settled = false;
};

// What a run with DeviceLengths writes, in the order of its stream.
struct LengthsStatus {
  std::int32_t wrong_items = 0;
  std::int32_t first_wrong = -1;  // the first of them, or -1
};

// Lengths of the items of a padded call, or offsets of a packed one, where the device reads them when the call runs: a
// CUDA graph that recorded it serves whatever they are when it is launched. An item is wrong, and none of its rows are
// written, if a length is below 0 or above what the tensors and the plan have, if offsets fall, do not begin with 0 or
// leave the tensors, or if it has fewer keys for its queries than planned (see Attention::prepare). Over pages packed
// queries have cu_q, and kv_lengths in place of cu_kv: null is as many keys as the page table has room for.
struct DeviceLengths {
  std::int64_t items = 0;  // at most the planned batch
  // Padded: [items] each; null: full length. Of packed queries over pages kv_lengths, too.
  const std::int32_t *q_lengths = nullptr, *kv_lengths = nullptr;
  const std::int32_t *cu_q = nullptr, *cu_kv = nullptr;  // packed: [items + 1] each, ascending from 0
  LengthsStatus* status = nullptr;                       // of the device too; or null
};

// One call. Either padded: q [batch, heads, queries, head_dim], k and v [batch, kv_heads, keys, head_dim], out like q,
// any strides whose last is 1, with optional lengths; or packed: q and out [total_q, heads, head_dim], k and v
// [total_kv, kv_heads, head_dim], with cu_q and cu_kv of batch + 1 offsets, or with `rows`; or either of them with
// lengths or offsets on the device. Memory of out and lse is apart from that of the others, which is not checked.
struct AttentionArguments {
  TensorView q, k, v, out;
  std::optional<TensorView> lse = {};  // f32 [batch, heads, queries], or packed [total_q, heads]; natural logarithm
  // -1e18 to 1e18; default 1 / sqrt(head_dim). GPUs go row by row where it is not above 0 or is above 65536; elsewhere
  // their kernels for 16 bits weigh scores by rounded products, and scaled scores may be up to 2^27 in magnitude.
  std::optional<float> scale = {};
  // Scores become softcap * tanh(scale * q k^T / softcap), 1e-18 to 1e18; none: they stay as they are. Before the mask.
  std::optional<float> softcap = {};
  // Added to scores as they are scaled and capped, by how far each key is from its query; null: nothing. For plans of
  // shapes that say `biased`, of the plan's device, with as many heads as those, and held until the run is done.
  const RelativeBias* relative_bias = nullptr;
  std::span<const std::int32_t> q_lengths = {}, kv_lengths = {};  // [batch] each, or empty for full length
  std::span<const std::int32_t> cu_q = {}, cu_kv = {};            // [batch + 1] each, or empty when padded
  std::optional<AttentionRows> rows = {};  // for masks that depend neither on length nor on the batch index; no lse
  // For masks that depend neither on length nor, but for those of tables, on the batch index. Plans of
  // decode_attention have a launch more with them than with device_kv_lengths.
  std::optional<DeviceLengths> device_lengths = {};
  // Keys and values in pages: i32 [batch, pages of an item], on the device, where key i of item b lies in row
  // i % page_size of page page_table[b, i / page_size] of k and v, which are [pages, kv_heads, page_size, head_dim].
  // Page sizes are 16, 32, 64, 128 and 256. Lengths are kv_lengths, also of packed queries, which then have no cu_kv.
  // Pages past an item's length are not looked up. On CUDA decode_attention, stream_attention and most plans of
  // band_attention read pages as they do rows (docs/c_api.md); calls of other plans, and tensors off 16 bytes, go to
  // mma_attention, which is slower.
  std::optional<TensorView> page_table = {};
  // Looks at the pages of all items before anything is computed, for which the host waits. On the CPU it always does.
  bool check_pages = false;
  // i32 [batch], on the device, in place of kv_lengths: read when the kernel runs, so that a recorded graph follows
  // them. Read by decode_attention, cut to 0..keys; needs prepare(queries, 1), and a mask that does not depend on
  // length. For other kernels it is device_lengths of full queries.
  std::optional<TensorView> device_kv_lengths = {};
  // Draft trees of speculative decoding: i32 [batch or 1, T, ceil(T / 32)], on the device and read when the kernel
  // runs, T at most the planned tree_queries. Bit j % 32 of word [b, i, j / 32] says whether query i of item b may see
  // the key of its query j, which is key keys - queries + j of the item; the mask still holds besides. Keys in front of
  // those, and items of more than T queries, know no tree. Not with `rows`.
  std::optional<TensorView> tree = {};
  // For a GPU's cache; results are the same bits. Kernels may go from the last item to the first: where q, k and v of
  // the last ones were written last, they are still there. And what the call gives is kept, as the next kernel reads
  // it.
  bool backwards = false, out_read_next = false;
  void* stream = nullptr;  // on CUDA, where all tensors are of the GPU: a CUstream, or null for the default one
  // Device memory of workspace_bytes() at a multiple of 16, for no other run at the same time. Null: the plan's own.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool may_plan = true;  // false: lengths that need a plan of their own and were not prepared are refused
  // Takes, each once, what the work of this run reads: to be held as long as a graph that records the run is launched.
  // Plans that runs make, up to 256, may else be dropped for others; and memory of a plan's own that the recorded work
  // writes goes with it.
  std::vector<std::shared_ptr<const void>>* plans_used = nullptr;
};

struct AttentionOptions {
  std::string kernel = "auto";  // or a kernel's name, as `stof plan` prints them
};

struct AttentionPlan;  // src/backend/contract.h

// Rows without an allowed key give output 0 and LSE -inf. Padded rows past an item's length are not written.
// Memory outside the lengths is never read into a result. A NaN in an allowed key propagates.
class Attention {
 public:
  // Measures the mask, chooses a kernel, packs the layout. Throws invalid_argument for a shape that the mask or the
  // library does not take; unsupported, listing every kernel's refusal, when none takes the problem.
  Attention(const Mask& mask, const AttentionShape& shape, const Device& device, const AttentionOptions& options = {});
  // A plan for masks that are made while running: what a table allows of what `limit` allows, `causal() & sink(4)` for
  // one. Chooses for the fullest table that may come, and makes room for it.
  Attention(const MaskTable& table, const Mask& limit, const AttentionShape& shape, const Device& device);
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  const AttentionPlan& plan() const;  // what was chosen and why, as `stof plan` prints it
  // Of calls over pages whose lengths the host knows; often the same one.
  const AttentionPlan& plan_for_pages() const;
  // Made so far: one, and more when items have fewer keys beside their queries than planned, when a mask that depends
  // on length meets new lengths, and on CUDA when items of up to 16 queries come in a call of a plan for more.
  std::int64_t plans_made() const;
  // Makes the plan of its own that an item of these lengths needs, if it needs one. With device_lengths, items that
  // have fewer keys more than queries than the longest one are right after prepare(longest queries, 1). For up to 16
  // queries, of a plan for more on CUDA, also makes what items of so few go by beside chunks of prompts, where the
  // kernel for few queries takes the problem. Prepared plans stay; up to 256 pairs of lengths may be. Thread-safe.
  void prepare(std::int64_t queries, std::int64_t keys) const;
  // Of AttentionArguments::workspace, for every plan made so far; 0 on the CPU.
  std::size_t workspace_bytes() const;
  // The table's contents for runs from now on: on CUDA for those that its stream puts after it, with no copy to the
  // host and no waiting; it allocates nothing and can be recorded into a graph. Only for plans of a table, and before
  // their first run. Thread-safe, but two updates, or an update and a run, that may overlap on the GPU are the caller's
  // to order.
  void update(const TableContents& contents) const;
  // Any number of items when the mask does not depend on the batch index, with 2^24 heads together at most; lengths up
  // to the planned ones. Thread-safe. New lengths cost no planning but where plans_made() says so.
  void run(const AttentionArguments& arguments) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stof
