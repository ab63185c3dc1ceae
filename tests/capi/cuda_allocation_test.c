/* SPDX-License-Identifier: Apache-2.0
 * Runs on a GPU like earlier ones allocate nothing, on the host or the device, whatever their lengths, offsets, strides
 * and kernel, and what threads run on streams of theirs does not meet: counts what passes malloc and its relatives
 * around a driver that launches nothing (fake_driver.c). With a workspace the first run of a plan takes no memory of
 * the device either. Exit status 77 when the library has no kernels for it. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stof/stof.h"
#include "tests/capi/counted_memory.h"
#include "tests/capi/cuda_calls.h"
#include "tests/capi/fake_driver.h"

/* Allocations of runs after the first two, which make what is kept; below 0: nothing was launched. */
static long allocations_of(const stof_plan* plan, const stof_call* call) {
  const long first = counted_allocations();
  for (int i = 0; i < kRuns; ++i) {
    const long before = fake_launches();
    count_allocations(i >= kKept);
    check(stof_plan_run(plan, call));
    count_allocations(0);
    if (fake_launches() == before) return -1;
  }
  return counted_allocations() - first;
}

static int failures;

static void expect_none(const char* mask, const char* kernel, const char* way, long found) {
  if (found == 0) return;
  printf("%s, %s, %s: %ld allocations in %d runs\n", mask, kernel, way, found, kRuns - kKept);
  ++failures;
}

static void expect_launched(const char* mask, const char* kernel, const char* way, const char* wanted) {
  if (fake_launched(wanted)) return;
  printf("%s, %s, %s: %s was not launched\n", mask, kernel, way, wanted);
  ++failures;
}
static void expect_not_launched(const char* mask, const char* kernel, const char* way, const char* unwanted) {
  if (!fake_launched(unwanted)) return;
  printf("%s, %s, %s: %s was launched\n", mask, kernel, way, unwanted);
  ++failures;
}

/* Row blocks come by a list where it is known that many have no rows: lengths of the host, offsets with little room. */
static int should_list(const char* kernel, const stof_call* call) {
  const int as_loaded = call->k.data == k && call->softcap == NULL && call->scale == NULL;
  return strcmp(kernel, "stream_attention") == 0 && as_loaded &&
         (call->q_lengths != NULL || call->cu_q != NULL ||
          (call->device_cu_q != NULL && call->queries < kItems * kLength));
}

/* Of a plan that has not run yet, on streams that it does not know: it has memory for one only. */
static void expect_no_device_memory(const char* mask, const char* kernel, const stof_plan* plan, int64_t rows) {
  static int streams[2];
  stof_call call = padded(rows);
  call.workspace = workspace;
  call.workspace_bytes = workspace_bytes;
  const long before = fake_allocations();
  for (int i = 0; i < 2; ++i) {
    call.stream = &streams[i];
    check(stof_plan_run(plan, &call));
  }
  if (fake_allocations() == before) return;
  printf("%s, %s: %ld allocations of the device in the first runs\n", mask, kernel, fake_allocations() - before);
  ++failures;
}

static void* run_on_stream_of_thread(void* plan) {
  stof_call call = padded(kLength);
  call.stream = (void*)2; /* cudaStreamPerThread */
  check(stof_plan_run(plan, &call));
  return NULL;
}

/* Calls of two threads run beside each other, though their streams have one handle. */
static void expect_memory_of_each_thread(const char* mask, const char* kernel, stof_plan* plan) {
  run_on_stream_of_thread(plan);
  for (int again = 0; again < 2; ++again) {
    const long before = fake_allocations();
    pthread_t thread;
    if (again) run_on_stream_of_thread(plan);
    else if (pthread_create(&thread, NULL, run_on_stream_of_thread, plan) != 0 || pthread_join(thread, NULL) != 0)
      exit(1);
    if (fake_allocations() == before + !again) continue;
    printf("%s, %s: %ld allocations of the device for %s thread\n", mask, kernel, fake_allocations() - before,
           again ? "the same" : "another");
    ++failures;
  }
}

/* Streams that come and go, each with the handle of the one before: the memory of those that are no more is freed, but
 * for what a graph has. */
static void expect_memory_of_living_streams(const char* mask, const char* kernel, const stof_plan* plan) {
  static int handle;
  stof_call call = padded(kLength);
  call.stream = &handle;
  check(stof_plan_run(plan, &call));
  const long one = fake_held();
  for (int i = 0; i < 6; ++i) {
    fake_new_streams();
    if (i == 3) fake_record(&handle);
    check(stof_plan_run(plan, &call));
    fake_record(NULL);
    const long wanted = one + (i > 3);
    if (fake_held() == wanted) continue;
    printf("%s, %s: %ld pieces of memory with stream %d of one handle, not %ld\n", mask, kernel, fake_held(), i,
           wanted);
    ++failures;
  }
}

/* A stream that records has the memory that it runs with, and one that has not run yet gets some of its own: a piece
 * for each kernel, and one for the second result of a sum. */
static void expect_recorded(const char* mask, const char* kernel, const stof_plan* plan) {
  const long pieces = strcmp(kernel, "auto") == 0 ? 3 : 1;
  static int known, unknown;
  stof_call call = padded(kLength);
  call.stream = &known;
  check(stof_plan_run(plan, &call));
  const struct {
    int* stream;
    long allocations;
  } cases[] = {{&known, 0}, {&unknown, pieces}, {&unknown, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    const long before = fake_allocations();
    call.stream = cases[i].stream;
    fake_record(call.stream);
    check(stof_plan_run(plan, &call));
    fake_record(NULL);
    if (fake_allocations() == before + cases[i].allocations) continue;
    printf("%s, %s: %ld allocations of the device in recorded run %zu, not %ld\n", mask, kernel,
           fake_allocations() - before, i, cases[i].allocations);
    ++failures;
  }
}

/* A call without items or rows computes nothing; what its lists say is written all the same. */
static void expect_status_without_rows(const char* mask, const char* kernel, const stof_plan* plan) {
  for (int items = 0; items <= kItems; items += kItems) {
    stof_call call = padded(0);
    lengths_there(&call);
    call.batch = items;
    fake_forget();
    const long before = fake_launches();
    check(stof_plan_run(plan, &call));
    expect_launched(mask, kernel, items == 0 ? "no items" : "no rows", "place_items_kernel");
    if (fake_launches() != before + 1) {
      printf("%s, %s: %ld launches of a call without rows\n", mask, kernel, fake_launches() - before);
      ++failures;
    }
  }
}

/* Heads and items with different masks are of one launch: of full length nothing is written in front of it. */
static void expect_one_launch(const char* mask, const char* kernel, const stof_plan* plan) {
  const stof_call call = padded(kLength);
  const long before = fake_launches();
  check(stof_plan_run(plan, &call));
  if (fake_launches() == before + 1) return;
  printf("%s, %s: %ld launches of a call\n", mask, kernel, fake_launches() - before);
  ++failures;
}

static void expect_refused(const stof_plan* plan, const stof_call* call, const char* name) {
  const char* message = "";
  const stof_status status = stof_plan_run(plan, call);
  if (status != STOF_OK) message = stof_last_error();
  if (status == STOF_INVALID && strstr(message, name) != NULL) return;
  printf("%s of the host in a sum: status %d, '%s'\n", name, (int)status, message);
  ++failures;
}

/* What only the adding of two results writes is looked at, too; in a workspace it allocates nothing. */
static void expect_memory_of_device(const stof_plan* plan) {
  static float host[4];
  static int stream;
  stof_call call = padded(kLength);
  call.lse = (stof_tensor){host, kHeads * kLength, kLength, 1};
  expect_refused(plan, &call, "lse");
  call = padded(kLength);
  call.workspace = (void*)(((uintptr_t)host + 15) / 16 * 16);
  call.workspace_bytes = workspace_bytes;
  expect_refused(plan, &call, "workspace");
  call.workspace = workspace;
  call.stream = &stream;
  fake_forget();
  const long before = fake_allocations();
  check(stof_plan_run(plan, &call));
  expect_launched("a sum", "auto", "workspace", "add_results_kernel");
  if (fake_allocations() == before) return;
  printf("a sum with a workspace: %ld allocations of the device\n", fake_allocations() - before);
  ++failures;
}

static void try_plan(const char* text, const char* kernel, int64_t rows) {
  stof_mask* mask = NULL;
  stof_plan* plan = NULL;
  const stof_shape shape = {sizeof shape, kItems, kHeads, kKeyHeads, rows, kLength, kDim, STOF_F16, 0};
  check(stof_mask_parse(text, NULL, &mask));
  const stof_status status = stof_plan_create(mask, &shape, "cuda", kernel, &plan);
  if (status == STOF_UNSUPPORTED && strstr(stof_last_error(), "build") != NULL) exit(77);
  check(status);
  stof_mask_destroy(mask);
  const int is_decode = strcmp(kernel, "decode_attention") == 0;
  if (is_decode) { /* items may begin anywhere */
    check(stof_plan_prepare(plan, rows, 1));
    check(stof_plan_prepare(plan, rows, rows));
  }
  check(stof_plan_workspace_size(plan, &workspace_bytes));
  workspace = device_memory(workspace_bytes);
  expect_no_device_memory(text, kernel, plan, rows);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
    stof_call call = padded(rows);
    ways[i].change(&call);
    const int listed = call.device_q_lengths != NULL || call.device_cu_q != NULL;
    if (rows < kLength && call.q_lengths != NULL) call.q_lengths = NULL;
    if (rows < kLength && (call.cu_q != NULL || listed)) continue; /* whose items have as many queries as keys */
    fake_forget();
    expect_none(text, kernel, ways[i].name, allocations_of(plan, &call));
    if (call.scale != NULL) expect_launched(text, kernel, ways[i].name, "row_attention");
    if (listed && strcmp(kernel, "row_attention") != 0)
      expect_launched(text, kernel, ways[i].name, "place_items_kernel");
    if (strcmp(kernel, "auto") == 0) { /* two results are added up, of items that lie evenly */
      const int even = call.q_lengths == NULL && call.cu_q == NULL && call.device_kv_lengths == NULL && !listed;
      (even ? expect_launched : expect_not_launched)(text, kernel, ways[i].name, "add_results_kernel");
      continue;
    }
    const int should = rows == kLength && should_list(kernel, &call);
    (should ? expect_launched : expect_not_launched)(text, kernel, ways[i].name, "list_row_blocks_kernel");
  }
  expect_status_without_rows(text, kernel, plan);
  if (strcmp(kernel, "stream_attention") == 0 && strncmp(text, "heads", 5) == 0) expect_one_launch(text, kernel, plan);
  if (strcmp(kernel, "stream_attention") == 0) expect_memory_of_each_thread(text, kernel, plan);
  if (strcmp(kernel, "stream_attention") == 0) expect_memory_of_living_streams(text, kernel, plan);
  if (strcmp(kernel, "stream_attention") == 0 || strcmp(kernel, "auto") == 0) expect_recorded(text, kernel, plan);
  if (strcmp(kernel, "auto") == 0) expect_memory_of_device(plan);
  stof_plan_destroy(plan);
}

/* Items with masks of their own, which no lists of the device come with: one launch where lengths are as planned. */
static void try_items(void) {
  const char *text = "batch(0: causal, 1-20: heads(0: all, *: window(9)), *: causal & window(20))",
             *kernel = "stream_attention";
  const stof_shape shape = {sizeof shape, kItems, kHeads, kKeyHeads, kLength, kLength, kDim, STOF_F16, 0};
  stof_mask* mask = NULL;
  stof_plan* plan = NULL;
  check(stof_mask_parse(text, NULL, &mask));
  check(stof_plan_create(mask, &shape, "cuda", kernel, &plan));
  stof_mask_destroy(mask);
  expect_one_launch(text, kernel, plan);
  stof_call call = padded(kLength);
  expect_none(text, kernel, "as planned", allocations_of(plan, &call));
  call.q_lengths = call.kv_lengths = lengths;
  expect_none(text, kernel, "lengths", allocations_of(plan, &call));
  stof_plan_destroy(plan);
}

/* Of a long plan, for every position that an item could end at: it has more rows than a launch takes. */
static void expect_tiles_for_short_item(void) {
  enum { kManyHeads = 32, kGroups = 8, kKeys = 40000 };
  static const int32_t length[1] = {30000};
  const char *text = "causal & window(100)", *kernel = "decode_attention";
  const stof_shape shape = {sizeof shape, 1, kManyHeads, kGroups, 1, kKeys, kDim, STOF_F16, 0};
  stof_mask* mask = NULL;
  stof_plan* plan = NULL;
  check(stof_mask_parse(text, NULL, &mask));
  check(stof_plan_create(mask, &shape, "cuda", kernel, &plan));
  stof_mask_destroy(mask);
  check(stof_plan_prepare(plan, 1, length[0]));
  stof_call call = {.struct_size = sizeof call, .dtype = STOF_F16, .batch = 1, .queries = 1, .keys = kKeys};
  call.q = (stof_tensor){q, kManyHeads * kDim, kDim, kDim};
  call.out = (stof_tensor){out, kManyHeads * kDim, kDim, kDim};
  call.k = (stof_tensor){k, kGroups * kKeys * kDim, kKeys * kDim, kDim};
  call.v = (stof_tensor){v, kGroups * kKeys * kDim, kKeys * kDim, kDim};
  call.kv_lengths = length;
  fake_forget();
  check(stof_plan_run(plan, &call));
  expect_launched(text, kernel, "a short item", "decode_attention");
  expect_not_launched(text, kernel, "a short item", "row_attention");
  call.queries = 0;
  fake_forget();
  check(stof_plan_run(plan, &call));
  expect_not_launched(text, kernel, "no query", "decode_attention");
  stof_plan_destroy(plan);
}

/* Calls with draft trees, whose items' lengths the host knows. */
static void try_trees(const char* kernel, int64_t rows) {
  enum { kDrafts = 4, kWords = 1 };
  const char* text = "causal & window(20)";
  const stof_shape shape = {sizeof shape, kItems, kHeads, kKeyHeads, rows, kLength, kDim, STOF_F16, 0, kDrafts};
  stof_mask* mask = NULL;
  stof_plan* plan = NULL;
  check(stof_mask_parse(text, NULL, &mask));
  check(stof_plan_create(mask, &shape, "cuda", kernel, &plan));
  stof_mask_destroy(mask);
  check(stof_plan_prepare(plan, rows, 1));
  stof_call call = padded(rows);
  call.kv_lengths = lengths;
  call.tree = numbers; /* which nothing reads here */
  call.tree_row_stride = kWords, call.tree_queries = kDrafts;
  for (int each = 0; each < 2; ++each) {
    call.tree_batch_stride = each ? kDrafts * kWords : 0;
    fake_forget();
    expect_none(text, kernel, each ? "a tree for each item" : "one tree", allocations_of(plan, &call));
    expect_launched(text, kernel, "a tree", kernel);
  }
  stof_plan_destroy(plan);
}

int main(void) {
  static const char* const kernels[] = {"stream_attention", "band_attention", "gather_attention", "mma_attention",
                                        "row_attention"};
  for (int i = 0; i < kItems; ++i) lengths[i] = 1 + i * 7 % (kLength / 2), offsets[i + 1] = offsets[i] + lengths[i];
  q = device_memory(kBytes + 64), k = device_memory(kBytes + 64);
  v = device_memory(kBytes + 64), out = device_memory(kBytes + 64);
  lse = device_memory(sizeof(float) * kItems * kHeads * kLength);
  numbers = device_memory(sizeof(int32_t) * 4 * kItems);
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; ++i) {
    try_plan("causal & window(20)", kernels[i], kLength);
    try_plan("heads(0: window(9), *: causal & window(20))", kernels[i], kLength);
  }
  try_plan("dilated(8,4)", "stream_attention", kLength); /* by residue class */
  try_plan("window(8) | strided(32)", "auto", kLength);
  try_plan("all", "decode_attention", 4);
  expect_tiles_for_short_item();
  try_items();
  try_trees("stream_attention", 40), try_trees("mma_attention", 40), try_trees("row_attention", 40);
  try_trees("decode_attention", 4);
  printf("%d failures of %zu kernels\n", failures, sizeof kernels / sizeof kernels[0] + 1);
  return failures == 0 ? 0 : 1;
}
