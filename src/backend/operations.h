// SPDX-License-Identifier: Apache-2.0
// What a backend offers besides attention: matmul with packed weights and the operations on rows of activations.
// Activations are [rows, columns], contiguous, of the session's dtype; accumulation is fp32. All addresses but those of
// weights to be packed are of the device's own memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/backend/matmul_setting.h"
#include "stof/tensor.h"

namespace stof {

struct Device;                      // stof/device.h
enum class Pooling : std::uint8_t;  // stof/session.h

// Where work is put: the host does it at once, a GPU in the order of the stream.
struct WorkQueue {
  const Device* device = nullptr;  // null: the host
  void* stream = nullptr;          // null: the device's default one
  void* workspace = nullptr;       // of the device, for the work of this queue alone
  std::size_t workspace_bytes = 0;
  // Rows may be gone through from the last to the first: what the work in front wrote last is then still in the cache.
  // Results are the same bits.
  bool backwards = false;
};

// gelu is x * Phi(x), by the error function; silu is x / (1 + exp(-x))
enum class Activation : std::uint8_t { none, gelu, gelu_tanh, silu, relu, tanh };

std::string_view name_of(Activation activation) noexcept;

// Moments of rows that are stored before their layer norm: for each row and each piece of kMomentColumns columns (the
// last may be shorter) the mean and the sum of squared distances from it, fp32, of the values as they are stored.
constexpr std::int64_t kMomentColumns = 64;
constexpr std::int64_t moment_pieces(std::int64_t columns) { return (columns + kMomentColumns - 1) / kMomentColumns; }
// Of a buffer [rows][pieces][2], which has to be aligned to 16 bytes.
constexpr std::int64_t moments_bytes(std::int64_t rows, std::int64_t columns) {
  return rows * moment_pieces(columns) * 8;
}

// A layer norm of an operand that was stored without it, together with its moments.
struct DeferredNorm {
  TensorView scale, shift;  // [columns] each; f32, f16 or bf16
  float epsilon = 1e-12f;
};

// A norm of an operand that the matmul computes itself, from whole rows: without a shift by the root mean square.
struct OwnNorm {
  TensorView scale;                 // [columns]; f32, f16 or bf16
  std::optional<TensorView> shift;  // the same
  float epsilon = 1e-6f;
};

// Of the columns of a product, heads that are turned by the position of their row before they are stored, as op::Rotate
// says (src/graph/graph.h), and that are stored in another order, see paired_column: scores of q and k that are ordered
// alike are what they were.
struct TurnedHeads {
  std::int64_t heads = 0, head_dim = 0;  // the first columns of the product; what follows them stays as it is
  friend bool operator==(const TurnedHeads&, const TurnedHeads&) = default;
};
// Where column i of a head is stored: beside the one that it turns with, and two such pairs of 8 columns each in turns,
// so that a thread of a GPU has whole pairs and finds the angles of two of them together.
constexpr std::int64_t paired_column(std::int64_t i, std::int64_t head_dim) {
  const std::int64_t pair = i % (head_dim / 2), half = i / (head_dim / 2);
  return pair / 8 * 16 + pair % 2 * 8 + pair % 8 / 2 * 2 + half;
}

// Rows of a gate's weight, and columns of its product, that lie beside as many of what it lets through, where halves
// are paired: GPUs have both of a pair in one thread.
constexpr std::int64_t kPairedColumns = 8;

// Only the backend that made them looks inside.
using PackedMatrix = std::shared_ptr<const void>;
using PackedLinear = std::shared_ptr<const void>;

// out = activation(norm(x) weight^T + bias) + norm(residual), with weights packed once for any number of rows. NaN
// stays in its row; relu may make 0 of it.
struct LinearSpec {
  std::vector<TensorView> weight;  // [out_i, in] each, stacked along the first; f32, f16 or bf16, any strides
  std::vector<TensorView> bias;    // [out_i] each, or empty
  Activation activation = Activation::none;
  // Weight and bias are two halves of equal size, a gate and what it lets through: out = activation(gate) * other, with
  // half as many columns as the weight has rows.
  bool gate = false;
  // Such halves of a product whose gate comes after it, by RowOperations::gate: kPairedColumns columns of either in
  // turns, which a gate reads as rows of so few columns. With MatmulOperations::pairs_gates the matrix is that of a
  // matmul with the gate inside.
  bool paired = false;
  bool residual = false;
  std::optional<TurnedHeads> turned = {};
  std::optional<DeferredNorm> x_norm = {}, residual_norm = {};
  // For calls of at most MatmulOperations::few_rows rows. What needs it is there: a gate by another kernel, a norm of x
  // that nothing in front has prepared, instead of x_norm.
  bool few_rows = false;
  std::optional<OwnNorm> own_norm = {};
  bool moments = false;            // of the rows of out are written too, for a norm that a later matmul applies
  DType dtype = DType::f32;        // of x, out and residual
  const Device* device = nullptr;  // to run on; null: the host
  PackedMatrix matrix = {};        // by pack_matrix(); null: pack() makes it
};

// What becomes of a matrix, for a cache to keep what is worth it: read once, soon or again and again, or not known. A
// hint, which changes no result.
enum class CacheUse : std::uint8_t { unknown, once, again };

struct LinearCall {
  const void* x = nullptr;         // [rows, in]
  void* out = nullptr;             // [rows, out], not overlapping x
  const void* residual = nullptr;  // [rows, out] when the spec has one; may be out
  // Rows up to row_capacity(rows) of x, out and residual are memory that may be read and written: their values are
  // arbitrary.
  std::int64_t rows = 0;
  CacheUse out_use = CacheUse::unknown;
  // As MatmulOperations::weight says of the matmul that comes next in the queue, or nothing: may be brought nearer.
  std::span<const std::byte> next_weight = {};
  WorkQueue queue = {};
  const MatmulSetting* setting = nullptr;  // null: the backend's own choice
  // Where the spec has x_norm, residual_norm, moments. Moments of rows past `rows` are neither read nor written.
  const float* x_moments = nullptr;
  const float* residual_moments = nullptr;
  float* moments = nullptr;  // not those above
  // Where heads are turned.
  const float* angles = nullptr;                 // [positions][head_dim / 2][2]: cosine and sine of each pair
  std::span<const std::int32_t> positions = {};  // [rows], in range
};

struct MatmulOperations {
  // Throws unsupported for a dtype or an epilogue that the device has no matmul for.
  PackedLinear (*pack)(const LinearSpec&);
  // Whether it does not. Looks at no memory of the spec; the device may be a description.
  bool (*takes)(const LinearSpec&);
  // What matmuls share that differ in their epilogue alone: those of the same weight, gate or paired halves, turned
  // heads, dtype, device, and scale and shift of x_norm. Throws as pack() does. Null: each has its own.
  PackedMatrix (*pack_matrix)(const LinearSpec&) = nullptr;
  // Allocates nothing once prepare() was called: it may be captured in a graph. cuBLASLt needs more: a run with this
  // number of rows, addresses as aligned and as large a workspace, at which its algorithm is chosen.
  void (*run)(const PackedLinear&, const LinearCall&);
  // Whether there is LinearSpec::paired, so that a gate inside a matmul and one after it need one matrix.
  bool pairs_gates = false;
  // Rows that LinearSpec::few_rows may have; 0: no such matmuls.
  std::int64_t few_rows = 0;
  // What the first matmul of a dtype would wait for may be done beside other work, by a thread of its own. Says
  // nothing of what goes wrong: whoever multiplies is told. Null: nothing is.
  void (*wake)(const Device&, DType) = nullptr;
  // Of a queue's workspace, for the best choice of algorithms; less is taken too.
  std::size_t workspace_bytes = 0;
  // The settings to choose from for a matmul of so many rows, the one with the shortest predicted time first; others
  // may take it too. Looks at no memory of the spec; the device may be a description. Null, as the next three are:
  // there is one way only.
  std::vector<MatmulChoice> (*settings)(const LinearSpec&, std::int64_t rows) = nullptr;
  // Why a setting does not take the matmul; empty when it does.
  std::optional<std::string> (*refuses)(const LinearSpec&, std::int64_t rows, const MatmulSetting&) = nullptr;
  // Loads, and compiles where it is not part of the build, what run() launches for this setting; of cuBLASLt the
  // library and what may follow it.
  void (*prepare)(const PackedLinear&, const MatmulSetting&) = nullptr;
  // Where the weight lies on the device; of one matrix without a gate, turned heads and x_norm as [out, in] of the
  // spec's dtype, for others to read. Null: nobody asks for it before it is multiplied by.
  std::span<const std::byte> (*weight)(const PackedLinear&) = nullptr;
  // Whether nothing has to be compiled for it.
  bool (*is_built_in)(const LinearSpec&, std::int64_t rows, const MatmulSetting&) = nullptr;
};

// The number of rows that buffers must have for a matmul of `rows`. Rounding keeps the shapes that a backend meets few:
// a row more costs a small batch much, a shape more costs a large one little.
constexpr std::int64_t row_capacity(std::int64_t rows) {
  const std::int64_t step = rows <= 32 ? 2 : 4;
  return (rows + step - 1) / step * step;
}

struct RowShape {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::f32;
  WorkQueue queue = {};
};

// Without a shift it is a root mean square norm (Zhang and Sennrich 2019): no mean is taken off either.
struct NormWeights {
  const float* scale = nullptr;  // [columns]
  const float* shift = nullptr;  // [columns], or null
  float epsilon = 1e-12f;
};

// One table of embeddings and the row of it that each output row takes.
struct LookupTable {
  TensorView table;                       // [entries, columns]; f32, f16 or bf16; on a GPU of the activations' dtype
  std::span<const std::int32_t> indices;  // [rows], in range
};

// One vector a text from the vectors of its tokens. Text i has the rows [starts[i], starts[i] + lengths[i]); one
// without rows gives zeros.
struct PoolCall {
  RowShape rows;
  const void* hidden = nullptr;           // [rows, columns]
  std::span<const std::int32_t> starts;   // [texts]
  std::span<const std::int32_t> lengths;  // [texts]
  Pooling pooling = {};                   // not none
  bool normalize = false;                 // each vector by its length; zeros stay
  float* out = nullptr;                   // [texts, columns]
};

// Heads of q, which come first, and of k that are divided by their root mean square before they are turned; on a GPU of
// up to 256 columns.
struct HeadNorms {
  const float *q_scale = nullptr, *k_scale = nullptr;  // [head_dim] each; null: none
  std::int64_t q_heads = 0;
  float epsilon = 1e-6f;
};

// Heads of a row from `first_head` on, and what follows all heads, that become row places[i] of `rows` and not of the
// call's result, whose columns for them are left as they are: k and v of a step, where a cache keeps them.
struct KeptHeads {
  void* rows = nullptr;                  // of the columns from first_head on, contiguous, apart from x; null: none
  std::span<const std::int32_t> places;  // [rows], each once; which are in range the caller knows
  std::int64_t first_head = 0;           // at most the heads that are turned
};

// Heads of a row that are turned by the position of the row: see op::Rotate (src/graph/graph.h).
struct RotaryHeads {
  const float* angles = nullptr;            // [positions][2][head_dim / 2]: cosines, sines; on the device
  std::span<const std::int32_t> positions;  // [rows], in range
  std::int64_t heads = 0;                   // the first of each row
  std::int64_t head_dim = 0;
  HeadNorms norms = {};
  KeptHeads kept = {};
};

// Row from[i] of x, or row i, becomes row to[i] of out, or row i. Which rows are in range the caller knows; x and out
// do not overlap.
struct RowCopies {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  // of a row
  const void* x = nullptr;
  void* out = nullptr;
  std::int64_t x_stride = 0, out_stride = 0;         // bytes from one row to the next
  std::span<const std::int32_t> from = {}, to = {};  // [rows], or empty
  WorkQueue queue = {};
};

// What is added to rows: [rows, columns] of their dtype, [columns] f32 where it is a bias, or nothing where it is null.
struct Addend {
  const void* data = nullptr;
  bool is_bias = false;
};

// Results have identical bits for any number of threads. `out` may be an input of the same shape.
struct RowOperations {
  // out = sum of the rows looked up, normalised when there is a norm.
  void (*lookup)(const RowShape&, std::span<const LookupTable>, const NormWeights* norm, void* out);
  // out = norm(x + residual); residual may be null.
  void (*layer_norm)(const RowShape&, const void* x, const void* residual, const NormWeights&, void* out);
  // out = norm(x) + y, of a norm without a shift.
  void (*norm_add)(const RowShape&, const void* x, const NormWeights&, const void* y, void* out);
  // out = activation(x + y); y may be nothing.
  void (*add)(const RowShape&, const void* x, const Addend& y, Activation, void* out);
  // out = x with some of its heads turned, and normalised before where there are norms.
  void (*rotate)(const RowShape&, const RotaryHeads&, const void* x, void* out);
  // out = activation(a) * b, [a, b] being a row of x, [rows, 2 * columns]. Of paired halves, rows have kPairedColumns.
  void (*gate)(const RowShape&, const void* x, Activation, void* out);
  void (*copy)(const RowCopies&) = nullptr;
  // Null where the host pools (src/runtime/pooling.h).
  void (*pool)(const PoolCall&) = nullptr;
  // out[i] = the first column of the highest values of row i of x, -1 where the row has NaN; of 1 column and more. Long
  // rows are shared among more cores where the queue has a workspace. Null where the host looks for it.
  void (*highest)(const RowShape&, const void* x, std::int32_t* out) = nullptr;
};

}  // namespace stof
