// SPDX-License-Identifier: Apache-2.0
// What a backend offers, as constants: attention kernels that say why not, matmul and row operations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/backend/device_stream.h"
#include "src/backend/operations.h"
#include "src/backend/token_attention.h"
#include "src/layout/band_widths.h"
#include "src/layout/block_layout.h"
#include "src/layout/key_pieces.h"
#include "src/layout/key_tiles.h"
#include "src/layout/row_spans.h"
#include "src/layout/table_form.h"
#include "src/mask/stats.h"
#include "stof/attention.h"
#include "stof/device.h"

namespace stof {

inline constexpr std::int64_t kMaxHeadDim = 256;

// Calls will do more to scores than scale them.
inline bool changes_scores(const AttentionShape& shape) { return shape.capped || shape.biased; }

struct AttentionProblem {
  AttentionShape shape = {};
  MaskStats stats = {};          // of one item when the mask is the same for all of them
  std::int64_t alike_heads = 1;  // that share key heads and masks (src/attention/alike_heads.h)
  double partial_live = 1;       // share of a partial block of 64x64 in live cells (src/attention/live_share.h)
  bool mask_has_text = true;     // the mask can be emitted as source (no lambda-only or array leaf stands in the way)
  BandWidths band_widths = {};   // src/layout/band_widths.h
  KeyPieces key_pieces = {};     // src/layout/key_pieces.h
  KeyTiles key_tiles = {};       // src/layout/key_tiles.h
  std::string why_not_compiled = {};  // of capped and biased shapes: kernels that the build lacks cannot be made now
  std::int64_t residues = 1;          // above 1: items are so many residue classes each
  bool uneven = false;                // of unequal lengths: those of one length are a launch
  // Of rows that are few and fewer than keys, what each is allowed, where the mask says it so (src/layout/row_spans.h).
  std::vector<RowSpan> spans = {};
  bool by_spans = false;    // of shapes with draft trees: whether spans say all rows, however many there are
  bool from_table = false;  // the mask comes as a table, in blocks of 64 x 64; the statistics are of the fullest one
};

enum class LayoutKind : std::uint8_t { block, row };

struct AttentionPlan {
  std::string_view kernel;
  LayoutKind layout = LayoutKind::block;
  BlockFormat format;
  std::string instance = {};  // which of the kernel's templates, where it has several
  int splits = 1;
  std::int64_t stacked_heads = 1;  // query heads of one key head whose rows a tile has, one head's after the other's
  std::int64_t residues = 1;       // above 1: the mask, rows and keys are seen by residue class (src/mask/residues.h)
  double predicted_us = 0;
  std::string reason;  // one line, shown by `stof plan`
  // Of the pairs that the plan leaves out, one plan or none: the results of both are added (CombSplit of residues.h).
  std::vector<AttentionPlan> rest = {};
  friend bool operator==(const AttentionPlan&, const AttentionPlan&) = default;
};

using Refusal = std::optional<std::string>;  // empty: the kernel takes the problem

// A packed mask before a kernel has seen it.
struct PackedMask {
  LayoutKind kind = LayoutKind::block;
  BlockLayout blocks;
  RowLayout rows;
  AttentionShape shape = {};  // that was planned for
  // Rows of an item at most, where the layout has more positions than any item has rows; 0: as many as positions.
  std::int64_t most_queries = 0;
  // Where the mask has such, and rows are of chunks, which have fewer queries than keys.
  std::vector<RowSpan> spans = {};
};

// What a kernel makes of a packed mask: its DeviceLayout, shared by runs. Only the kernel that made it looks inside.
using ArrangedMask = std::shared_ptr<const void>;

// One item of a call: where its rows and keys begin, in elements, and how many it has. Row i of the item has position
// i + keys - queries, inside the positions of the arranged layout unless keys is 0.
struct AttentionItem {
  std::int64_t index = 0;  // in the batch; 0 when the mask is the same for all items
  std::int64_t place = 0;  // in the call: the row of the page table, the device's length
  std::int64_t queries = 0, keys = 0;
  std::int64_t q = 0, k = 0, v = 0, out = 0, lse = 0;
};

struct AttentionStrides {
  std::int64_t head = 0, row = 0;  // in elements; the innermost dimension is contiguous
};

// Items whose rows the device alone knows.
struct DeviceItems {
  std::int64_t count = 0;           // 0: the call's own list holds
  std::int64_t rows = 0, keys = 0;  // of q and out, of k and v: of an item, padded or in pages, or of all in a row
  const std::int32_t *starts = nullptr, *lengths = nullptr;  // AttentionRows; else what DeviceLengths says
  bool settled = false;                                      // of AttentionRows
  const std::int32_t *q_lengths = nullptr, *kv_lengths = nullptr, *cu_q = nullptr, *cu_kv = nullptr;
  std::int32_t* status = nullptr;
  std::int64_t least_first = 0;                        // keys - queries that the arranged layout begins at
  std::int64_t least_queries = 0;                      // items of fewer, from the first key on, are another call's
  std::int64_t q = 0, k = 0, v = 0, out = 0, lse = 0;  // from item to item, where they are padded
};

// Keys and values in pages of one pool: key i of an item lies in row i % size of page table[item.place][i / size].
// Items begin at offset 0 of the pool.
struct KeyPages {
  const std::int32_t* table = nullptr;      // of the device; null: keys of an item follow each other
  std::int64_t item_stride = 0;             // between rows of the table, in elements
  std::int64_t size = 0;                    // keys of a page, a power of two
  std::int64_t count = 0;                   // pages of the pool
  std::int64_t k_stride = 0, v_stride = 0;  // between pages, in elements
};

// Which of an item's last keys, those of its own queries, each query may see, besides what the mask says: of query i of
// the item at `place` the bits of the words from words[place * item_stride + i * row_stride] on.
struct DraftTrees {
  const std::int32_t* words = nullptr;  // of the device
  std::int64_t item_stride = 0, row_stride = 0;
  std::int64_t queries = 0;  // items of more know no tree; 0: none does
};

// What is added to scores, in units of log2: of a query and a key `back` positions in front of it, of head h,
// zero_of(h)[back], where there are kMargin places behind `reach` to either side with the furthest values. Behind the
// places of a head, an even number, stand the same once more, one place further (kernels/shared/score_bias.h).
struct ScoreBias {
  static constexpr std::int64_t kMargin = 256;
  const float* values = nullptr;  // of the device; null: nothing is added
  std::int64_t head_stride = 0, reach = 0;
  const float* zero_of(std::int64_t head) const { return values + head * head_stride + reach + kMargin; }
};

// One of two calls whose launches work at the same time, each on some of the device's cores, with nothing launched
// between them. The first says whether the second may begin beside it, once what is in front of both is done; that
// then does not end before the first.
struct Beside {
  int cores = 0;          // that the call has; 0: all, and it has no other beside it
  bool* leads = nullptr;  // of the first: to be set where it does; null: of the second
};

// A call as kernels see it: padded and packed batches differ only in their items and strides. Checked.
struct AttentionCall {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;  // may be null
  AttentionStrides q_strides, k_strides, v_strides, out_strides, lse_strides;
  std::int64_t heads = 1, kv_heads = 1, head_dim = 0;
  DType dtype = DType::f32;
  float scale = 1.f;
  float softcap = 0.f;  // above 0: scores become softcap * tanh(scale * q k^T / softcap)
  ScoreBias bias = {};
  KeyPages pages = {};
  DraftTrees trees = {};
  // Of the device: the keys of each place; what items say is then the most there may be. Null: what items say.
  const std::int32_t* device_lengths = nullptr;
  bool packed = false;         // items follow each other: none has memory past its own rows
  bool backwards = false;      // kernels may go from the last item to the first: AttentionArguments
  bool out_read_next = false;  // a GPU's cache keeps the result: AttentionArguments
  void* stream = nullptr;      // of the device; null: its default stream
  void* workspace = nullptr;   // of the device, as large as the kernel wants it; null: the arranged mask's own
  // Of a call that may be recorded: takes, each once, memory that the graph needs. Null: nobody holds it for the graph.
  std::vector<std::shared_ptr<const void>>* held = nullptr;
  std::span<const AttentionItem> items;
  // Above 1: items are those of so many residue classes, class after class, each with the same items in the same order.
  std::int64_t residues = 1;
  Beside beside = {};
  DeviceItems device_items;  // where it has lists, `items` has one: the longest, at the beginning
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();  // for the lists of this call
};

// A table whose contents will come, what else limits its mask, and the shape that is planned for.
struct TableProblem {
  const TableForm& form;
  const BoundMask& limit;
  const AttentionShape& shape;
};

// What a kernel does with calls over pages: reads them, of items of any length as soon as of those planned; reads them;
// reads them, but other kernels that do are sooner; or has another one do it, which is slower.
enum class OverPages { reads_anywhere, reads, reads_late, passes_on };

struct AttentionKernel {
  std::string_view name;
  Refusal (*refuses)(const AttentionProblem&, const DeviceCaps&);
  // Tiles and splits worth considering, each with its predicted time.
  std::vector<AttentionPlan> (*candidates)(const AttentionProblem&, const DeviceCaps&);
  ArrangedMask (*arrange)(const AttentionPlan&, PackedMask, const Device&);
  void (*run)(const AttentionPlan&, const ArrangedMask&, const AttentionCall&, const Device&);
  std::size_t (*workspace_bytes)(const ArrangedMask&) = nullptr;  // of AttentionCall::workspace; null: none
  bool reads_pages = false;                                       // else calls come with keys in rows
  OverPages (*over_pages)(const ArrangedMask&) = nullptr;         // null: it reads them
  // What a call takes longer where keys lie in pages. Null: not known.
  double (*pages_us)(const AttentionPlan&) = nullptr;
  bool reads_device_lengths = false;
  std::int64_t few_queries = 0;  // for items of so many at most, also out of calls of a plan for more; 0: for any
  bool takes_chunks = false;     // PackedMask::most_queries and what comes with it
  bool takes_spans = false;      // PackedMask::spans, with layouts over every position too
  // Masks made on a device with memory of its own: room for one, and new contents in the order of a stream. Null: none.
  ArrangedMask (*reserve)(const AttentionPlan&, const TableProblem&, const Device&) = nullptr;
  void (*update)(const ArrangedMask&, const TableContents&, const Device&) = nullptr;
};

// What a plan has of a call, and the cores of a device that two of them have beside each other.
struct PlannedCall {
  const AttentionKernel& kernel;
  const ArrangedMask& arranged;
  const AttentionCall& call;
};
struct CoreShares {
  int leading = 0, following = 0;
  friend bool operator==(const CoreShares&, const CoreShares&) = default;
};

// Calls that differ in what they wait for, at the same time (AttentionCall::beside).
struct SideBySide {
  bool (*possible)(const DeviceCaps&);
  // How they share the device where that is predicted to be sooner than one behind the other; else nothing.
  std::optional<CoreShares> (*share)(const PlannedCall& leading, const PlannedCall& following, const Device&);
};

// Two results for the same rows, of keys that they do not share, become one, as if all had been seen together.
struct SumOperations {
  Refusal (*refuses)(const AttentionShape&);                         // the second result would be too large to be kept
  double (*predicted_us)(const AttentionShape&, const DeviceCaps&);  // what adding takes besides the two calls
  // Room for the second result of a call as large as planned, and what adds it. Null for a described device.
  std::shared_ptr<const void> (*reserve)(const AttentionShape&, const Device&);
  std::size_t (*workspace_bytes)(const AttentionShape&);  // of AttentionCall::workspace, in front of what calls take
  // For a call of items_lie_evenly (src/backend/even_items.h), no more of them and no longer than planned: lets
  // compute(first, second) run both, each with results of its own, and adds them to the call's out and lse.
  using Compute = std::function<void(const AttentionCall& first, const AttentionCall& second)>;
  void (*run)(const std::shared_ptr<const void>& room, const AttentionCall&, const Device&, const Compute&);
};

// Of a device with memory of its own. Copies between the host and it are over when they return.
struct MemoryOperations {
  // On the device, `offset` bytes past an aligned address, for tests and for callers whose tensors are not aligned.
  std::shared_ptr<void> (*copy_in)(const Device&, std::span<const std::byte>, std::size_t offset);
  void (*copy_out)(const Device&, std::span<std::byte> to, const void* from);
  // The ordinal of the device whose memory this is, if the host cannot read it. Null: not asked.
  std::optional<int> (*owner)(const void* address) = nullptr;
  // Bytes that nobody holds now. Null: not asked.
  std::int64_t (*left)(const Device&) = nullptr;
};

// Of what is below a device, and is not its name: times measured with one say little about another.
struct SoftwareVersions {
  std::string driver, cuda, blas;  // of blas cuBLASLt's number, or "oneDNN 3.1.1"
};

struct Backend {
  std::string_view name;
  std::span<const AttentionKernel> attention;
  // What the statistics of a mask are measured at, for a shape of which so many heads are alike.
  std::vector<BlockSize> (*attention_block_sizes)(const AttentionShape&, std::int64_t alike_heads);
  MatmulOperations matmul;
  RowOperations rows;
  const MemoryOperations* memory = nullptr;  // null: the host's
  bool measures_live = false;                // AttentionProblem::partial_live is wanted
  bool measures_keys = false;                // AttentionProblem::band_widths, key_pieces and key_tiles are wanted
  std::unique_ptr<DeviceStream> (*open_stream)(const Device&) = nullptr;  // null: the host does its work at once
  std::string (*missing_for_models)() = nullptr;                          // why only attention runs here, or nothing
  SoftwareVersions (*versions)() = nullptr;                               // null: none beside this library
  std::string (*processor)() = nullptr;  // where the device's name says its instruction sets alone; null: it says all
  // Why kernels that the build lacks cannot be compiled for the device; empty when they can. Null: nothing ever is.
  std::string (*why_not_compiled)(const Device&) = nullptr;
  // Writes the status of a call's lists, in the order of its stream, and computes nothing. Null: no lists but the
  // host's.
  void (*judge_lists)(const AttentionCall&, const Device&) = nullptr;
  const SideBySide* side_by_side = nullptr;         // null: calls run one behind the other
  const SumOperations* sums = nullptr;              // null: one plan takes all pairs
  const TokenAttention* token_attention = nullptr;  // null: steps of decoders do one thing after the other
  double launch_us = 0;                             // what a second run of a kernel costs besides its work
};

extern const Backend cpu_backend;   // backend/cpu/backend.cpp
extern const Backend cuda_backend;  // backend/cuda/backend.cpp

}  // namespace stof
