/* SPDX-License-Identifier: Apache-2.0
 * Masked attention for C99 and for whatever can call C: libstof.so exports these functions and nothing else.
 *
 *   stof_mask_parse -> stof_plan_create -> stof_plan_run, as often as wanted -> stof_plan_destroy, stof_mask_destroy
 *
 * Handles may be used by any number of threads at a time; only destroying one must be the last use of it. No function
 * prints, exits or throws. docs/c_api.md has the rules that concern all of them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program `stof` exits with, too, but for the last one. */
typedef enum stof_status {
  STOF_OK = 0,
  STOF_BUG = 1,         /* of STOF: please report it */
  STOF_INVALID = 2,     /* an argument or a file is wrong; the text names what was got and what is accepted */
  STOF_UNSUPPORTED = 3, /* a valid request that nothing here can serve */
  STOF_DEVICE = 4,      /* the device, its driver, or memory */
  STOF_INTERRUPTED = 5  /* as the function of stof_set_interrupt wanted */
} stof_status;

typedef enum stof_dtype { STOF_F32 = 0, STOF_F16 = 1, STOF_BF16 = 2, STOF_I32 = 3, STOF_BOOL = 4 } stof_dtype;

/* "0.1.0" */
const char* stof_version(void);

/* Why the calling thread's last failed call failed; "" before there was one. Valid until its next failure. */
const char* stof_last_error(void);

/* ---- Masks: docs/masks.md. All functions that make one copy what they are given. ---- */

typedef struct stof_mask stof_mask;

/* An array in the host's memory. A bool is a byte, 0 or not. */
typedef struct stof_array {
  const void* data;
  const int64_t* shape;   /* [rank] */
  const int64_t* strides; /* [rank], in elements, or NULL: contiguous */
  int32_t rank;
  int32_t dtype; /* stof_dtype */
} stof_array;

/* "causal & window(256) | global(16)". Names of files in the text are relative to `folder`; NULL: the current one. */
stof_status stof_mask_parse(const char* text, const char* folder, stof_mask** mask);

stof_status stof_mask_bits(const stof_array* allowed, stof_mask** mask); /* bool [N, M], [H, N, M] or [B, H, N, M] */
stof_status stof_mask_blocks(int64_t size, const stof_array* table, stof_mask** mask); /* bool [R, R] or [H, R, R] */
stof_status stof_mask_document_ids(const stof_array* ids, stof_mask** mask);           /* i32 [M] or [B, M] */

stof_status stof_mask_and(const stof_mask* a, const stof_mask* b, stof_mask** mask);
stof_status stof_mask_or(const stof_mask* a, const stof_mask* b, stof_mask** mask);
stof_status stof_mask_not(const stof_mask* a, stof_mask** mask);

/* As stof_mask_parse reads it with the same folder: an array from a file is written by its file's name as it was given.
 * One from memory is # and a fingerprint of its contents, which is not read. Valid as long as the mask; NULL for NULL.
 */
const char* stof_mask_text(const stof_mask* mask);

/* 1 where what a query and a key are allowed depends on how many keys there are, as of bits, natten, random_blocks and
 * bigbird, so that a plan serves the lengths alone that it was made or prepared for; else, and for NULL, 0. */
int32_t stof_mask_depends_on_length(const stof_mask* mask);

void stof_mask_destroy(stof_mask* mask); /* NULL: nothing happens */

/* ---- Plans: a mask, measured and packed for the kernel that was chosen for a shape on a device. ---- */

typedef struct stof_plan stof_plan;

typedef struct stof_shape {
  size_t struct_size; /* sizeof(stof_shape) */
  int64_t batch;
  int64_t heads, kv_heads; /* heads is a multiple of kv_heads */
  int64_t queries, keys;   /* of the longest item */
  int64_t head_dim;        /* 1..256 */
  int32_t dtype;           /* STOF_F32, STOF_F16, STOF_BF16: storage; accumulation is fp32 */
  /* A struct_size that ends here is accepted, too. */
  int64_t capped; /* not 0: calls will bring a softcap, and the plan is made for them; a table's takes one only then */
  /* A struct_size that ends here is accepted, too. */
  int64_t tree_queries; /* calls will bring draft trees of up to so many queries, 0..queries; 0: none will */
  /* A struct_size that ends here is accepted, too. */
  int64_t biased; /* not 0: calls may bring a relative bias, and the plan is made for them */
} stof_shape;

/* device: "cpu", "cuda", "cuda:N", or "auto" (CUDA where there is one). kernel: one by name, as the description of a
 * plan and `stof plan` print it; NULL chooses. The mask may be destroyed afterwards. */
stof_status stof_plan_create(const stof_mask* mask, const stof_shape* shape, const char* device, const char* kernel,
                             stof_plan** plan);

/* From now on the calling thread's calls that plan on the host (stof_plan_create, stof_plan_create_table,
 * stof_plan_prepare, and on the CPU stof_plan_update) ask every 50 ms or a little later, in that thread: a number other
 * than 0 ends the call with STOF_INTERRUPTED, without a plan, or with one that serves what it did. Not while a kernel
 * is compiled. It must return, and may call the library, but not with the plan that is being prepared. NULL: nobody is
 * asked, as at first. */
void stof_set_interrupt(int32_t (*ask)(void* user), void* user);

/* ---- Plans of a table: masks that are made while a model runs, on the device that uses them. ---- */

typedef enum stof_table_kind {
  STOF_TABLE_LISTS = 0,  /* i32 [batch, heads, ceil(queries / block_q), width]: key blocks in any order, -1 for none */
  STOF_TABLE_BLOCKS = 1, /* bool [batch, heads, ceil(queries / block_q), ceil(keys / block_kv)] */
  STOF_TABLE_BITS = 2,   /* bool [batch, heads, queries, keys] */
  /* The same with a bit a pair: byte [batch, heads, queries, ceil(keys / 8)], key j is bit j % 8 of byte j / 8. */
  STOF_TABLE_PACKED = 3
} stof_table_kind;

/* Rows are those of the longest item, row 0 first; a shorter item uses the rows of its own positions. */
typedef struct stof_table {
  size_t struct_size;        /* sizeof(stof_table) */
  int32_t kind;              /* stof_table_kind */
  int64_t batch;             /* 1: all items share one table; else the shape's batch */
  int64_t heads;             /* 1: all heads share one; else the shape's heads or kv_heads */
  int64_t block_q, block_kv; /* of lists and blocks: multiples of 64 */
  int64_t width;             /* of lists: entries of a row */
  /* Of what is kept on a GPU: tiles of 64 keys that 64 rows of a head use at most. 0: room for all that can come. */
  int64_t capacity;
} stof_table;

/* What an update writes, in the order of its stream. */
typedef struct stof_table_status {
  int32_t dropped_row_blocks; /* of 64 rows, with more tiles than there is room for: their out and lse are NaN */
  int32_t most_tiles;         /* of 64 keys that some row block uses: the capacity that this table needs */
  int32_t ignored_entries;    /* of lists: neither a block nor -1 */
} stof_table_status;

/* In memory of the plan's device. Distances are in elements and 0 where a table is shared; the last dimension is
 * contiguous. */
typedef struct stof_table_contents {
  size_t struct_size; /* sizeof(stof_table_contents) */
  const void* data;
  int64_t batch_stride, head_stride, row_stride;
  stof_table_status* status; /* of the plan's device too, or NULL */
  void* stream;              /* as in stof_call */
} stof_table_contents;

/* A plan for what a table allows of what `limit` allows: "causal" for one; NULL is everything. It chooses for the
 * fullest table that can come and makes room for it. The limit may be destroyed afterwards. */
stof_status stof_plan_create_table(const stof_table* table, const stof_mask* limit, const stof_shape* shape,
                                   const char* device, stof_plan** plan);

/* The contents for runs from now on; before the first one a run is refused. On CUDA it puts the planning on the stream
 * and returns: no copy to the host, no waiting, no allocation, and it can be recorded into a graph, whose replays read
 * the table again. Runs that the stream puts after it see it; what overlaps with it on other streams is the caller's to
 * order. On the CPU it reads the table before it returns. */
stof_status stof_plan_update(const stof_plan* plan, const stof_table_contents* contents);

/* ---- About plans ---- */

/* Makes, if it has to, what items of so many queries and keys need. A new plan serves items of which keys - queries is
 * no less than planned; others, and lengths when the mask depends on them (docs/masks.md), are prepared here. For up to
 * 16 queries, of a plan for more on CUDA, it also makes what items of so few go by beside chunks of prompts
 * (docs/c_api.md, Steps of a server). */
stof_status stof_plan_prepare(stof_plan* plan, int64_t queries, int64_t keys);

/* JSON on one line, keys as in `stof plan --json`, and `for_pages`: the plan that calls over pages go by if the host
 * knows their lengths, null where it is this one. Valid as long as the plan; NULL for NULL. */
const char* stof_plan_description(const stof_plan* plan);

/* Bytes of device memory for stof_call.workspace; 0 on the CPU. stof_plan_prepare may raise it. */
stof_status stof_plan_workspace_size(const stof_plan* plan, size_t* bytes);

void stof_plan_destroy(stof_plan* plan); /* NULL: nothing happens */

/* ---- Relative biases: what scores gain by how far a key is from its query (T5, MPNet, ALiBi). ---- */

typedef struct stof_relative_bias stof_relative_bias;

/* values: f32 [heads, 2 * reach + 1] of the host, row after row, which may go afterwards: values[h][reach + d] is added
 * to what head h scores a key whose position is that of its query plus d, which is below 0 for earlier keys. Keys
 * further away than reach have the value of the furthest. Finite, at most 2^20 in magnitude. Row i of an item has
 * position i + keys - queries. device: as of stof_plan_create. */
stof_status stof_relative_bias_create(const float* values, int64_t heads, int64_t reach, const char* device,
                                      stof_relative_bias** bias);

/* On CUDA it waits for the device, so that work which reads the bias is done; not while a graph is being recorded.
 * NULL: nothing happens. */
void stof_relative_bias_destroy(stof_relative_bias* bias);

/* ---- Running ---- */

/* [batch, heads, rows, head_dim] with any distances, in elements; head_dim is contiguous. */
typedef struct stof_tensor {
  void* data; /* on the plan's device; may be NULL only when there are no rows */
  int64_t batch_stride, head_stride, row_stride;
} stof_tensor;

/* What a run with lengths on the device writes, in the order of its stream. */
typedef struct stof_lengths_status {
  int32_t wrong_items; /* whose lengths or offsets cannot be: nothing of theirs is computed or written */
  int32_t first_wrong; /* the first of them, or -1 */
} stof_lengths_status;

/* Everything that is not set is 0. Items are padded, [batch, heads, rows, head_dim] with optional lengths, or packed
 * one after the other, [rows, heads, head_dim] with offsets: then batch_stride is not read. */
typedef struct stof_call {
  size_t struct_size;    /* sizeof(stof_call) */
  int32_t dtype;         /* of q, k, v and out: the plan's */
  int64_t batch;         /* items */
  int64_t queries, keys; /* rows of q and out, of k and v: of every item when padded, of all together when packed */
  stof_tensor q, k, v, out;
  stof_tensor lse;    /* f32 [batch, heads, rows], its rows row_stride apart: natural log-sum-exp; data NULL: none */
  const float* scale; /* -1e18 to 1e18; NULL: 1 / sqrt(head_dim); scaled scores: docs/c_api.md */
  /* In the host's memory, read before the call returns. */
  const int32_t *q_lengths, *kv_lengths; /* padded: [batch] each, or NULL for full ones */
  const int32_t *cu_q, *cu_kv;           /* packed: offsets, [batch + 1] each, ascending from 0 */
  void* stream;                          /* on CUDA a CUstream (cudaStream_t), NULL for the default one */
  /* On CUDA, of stof_plan_workspace_size bytes at a multiple of 16, for no other run at the same time. NULL: the plan's
   * own, of which there is one at first and another for every further stream. */
  void* workspace;
  size_t workspace_bytes;
  /* A struct_size that ends here is accepted, too. */

  /* Keys and values in pages, where page_table is not NULL: then k and v are [pages, kv_heads, page_size, head_dim],
   * batch_stride is from page to page, and key i of item b lies in row i % page_size of page
   * page_table[b * page_table_stride + i / page_size]. `keys` is how many the table has room for, a multiple of
   * page_size; lengths are kv_lengths, with packed queries too. No page past an item's length is looked up, and what
   * the rest of its last page holds does not matter. */
  const int32_t* page_table; /* on the plan's device */
  int64_t page_table_stride; /* in elements */
  int64_t page_size;         /* 16, 32, 64, 128 or 256 */
  int64_t pages;             /* of k and v */
  int32_t check_pages;       /* not 0: pages that k and v lack are an error, for which the host waits on CUDA */
  /* [batch], on the plan's device, in place of kv_lengths: read when the kernel runs, so that a recorded graph follows
   * them. After stof_plan_prepare(plan, queries, 1) every plan takes it where queries are padded, of full length;
   * beside q_lengths or cu_q plans of decode_attention do, and with pages those of up to 16 queries that asked for no
   * kernel. */
  const int32_t* device_kv_lengths;
  /* A struct_size that ends here is accepted, too. */
  const float* softcap; /* scores become softcap * tanh(scale * q k^T / softcap), 1e-18 to 1e18; NULL: they stay */
  /* A struct_size that ends here is accepted, too. */

  /* On the plan's device, in place of the lists of the host, and read when the kernels run: a recorded graph follows
   * them. Padded: [batch], with device_kv_lengths or alone; packed: [batch + 1] each, ascending from 0, where `queries`
   * and `keys` are the rows that there is room for. With pages packed queries have device_cu_q, and device_kv_lengths
   * in place of device_cu_kv, or neither of the two: as many keys as the table has room for. For at most as many items
   * as planned. */
  const int32_t* device_q_lengths;
  const int32_t *device_cu_q, *device_cu_kv;
  stof_lengths_status* lengths_status; /* on the plan's device, too; or NULL */
  /* A struct_size that ends here is accepted, too. */

  /* Draft trees of speculative decoding, on the plan's device and read when the kernels run, or NULL. Whether query i
   * of item b sees the key of its query j, which is key keys - queries + j of the item, says bit j % 32 of tree[b *
   * tree_batch_stride + i * tree_row_stride + j / 32]; the mask holds besides. Keys in front of those, and items of
   * more than tree_queries queries, know no tree. docs/c_api.md, Draft trees. */
  const int32_t* tree;
  int64_t tree_batch_stride, tree_row_stride; /* in elements; a batch stride of 0: one tree for all items */
  int64_t tree_queries;                       /* that a tree has, 1..the shape's; a row has ceil(tree_queries / 32) */
  /* A struct_size that ends here is accepted, too. */

  /* Added to scores as they are scaled and capped, or NULL: of the plan's device, with as many heads as its shape,
   * which is biased. To be kept until the work of the call is done, and as long as a graph that recorded it is
   * launched. */
  const stof_relative_bias* relative_bias;
} stof_call;

/* out = softmax(scale * q k^T, over the allowed keys) v. On CUDA it returns when the work is on the stream, and can be
 * recorded into a graph: it allocates no device memory, except for a stream that is new to the plan and brings no
 * workspace. On the CPU it returns when out is written. A call like an earlier one allocates nothing on the host, but
 * on the CPU for pages and for lists of the device. Rows without an allowed key give 0 and an LSE of -inf; rows past an
 * item's length are not written. */
stof_status stof_plan_run(const stof_plan* plan, const stof_call* call);

#ifdef __cplusplus
}
#endif
