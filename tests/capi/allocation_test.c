/* SPDX-License-Identifier: Apache-2.0
 * Runs on the CPU like earlier ones allocate nothing, in any library or thread. And one plan, run by several threads at
 * the same time, gives each of them the same bits. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stof/stof.h"
#include "tests/capi/counted_memory.h"

enum { kItems = 3, kHeads = 4, kLength = 128, kHeadDim = 32, kThreads = 3, kRuns = 20 };
enum { kValues = kItems * kHeads * kLength * kHeadDim };

static float in[kValues], logs[kThreads][kItems * kHeads * kLength], out[kThreads][kValues];
static const int32_t lengths[kItems] = {kLength, 17, 64};
static stof_plan* plan;

static void check(stof_status status) {
  if (status == STOF_OK) return;
  fprintf(stderr, "%s\n", stof_last_error());
  exit(1);
}

/* Counts after two runs, which make what is kept. */
static void* run(void* thread) {
  const int mine = *(const int*)thread;
  const stof_tensor inputs = {in, kHeads * kLength * kHeadDim, kLength * kHeadDim, kHeadDim};
  stof_tensor output = inputs;
  output.data = out[mine];
  const stof_call call = {.struct_size = sizeof call,
                          .dtype = STOF_F32,
                          .batch = kItems,
                          .queries = kLength,
                          .keys = kLength,
                          .q = inputs,
                          .k = inputs,
                          .v = inputs,
                          .out = output,
                          .lse = {logs[mine], kHeads * kLength, kLength, 1},
                          .q_lengths = lengths,
                          .kv_lengths = lengths};
  for (int i = 0; i < kRuns; ++i) {
    count_allocations(i >= 2);
    check(stof_plan_run(plan, &call));
    count_allocations(0);
  }
  return NULL;
}

static void make_plan(const char* text, const char* kernel) {
  stof_mask* mask = NULL;
  const stof_shape shape = {sizeof shape, kItems, kHeads, kHeads, kLength, kLength, kHeadDim, STOF_F32, 0};
  check(stof_mask_parse(text, NULL, &mask));
  check(stof_plan_create(mask, &shape, "cpu", kernel, &plan));
  stof_mask_destroy(mask);
}

/* Whether one plan gives the same bits to every thread that runs it at the same time. */
static int same_on_all_threads(void) {
  int numbers[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, run, &numbers[i]) != 0) return 0;
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 1; i < kThreads; ++i)
    if (memcmp(out[i], out[0], sizeof out[0]) != 0 || memcmp(logs[i], logs[0], sizeof logs[0]) != 0) return 0;
  return 1;
}

int main(void) {
  static const char* const masks[] = {"causal & window(20)", "heads(0: causal, *: window(9)) | global(2)"};
  static const char* const kernels[] = {"block_attention", "row_attention"};
  int failures = 0, first = 0;
  for (int i = 0; i < kValues; ++i) in[i] = (float)(i % 97) / 97.f;
  for (int i = 0; i < 4; ++i) {
    make_plan(masks[i / 2], kernels[i % 2]);
    const long before = counted_allocations();
    run(&first);
    const long made = counted_allocations() - before;
    printf("%s, %s: %ld allocations in %d runs\n", masks[i / 2], kernels[i % 2], made, kRuns - 2);
    failures += made != 0;
    const int same = same_on_all_threads();
    printf("%s, %s: %s bits on %d threads\n", masks[i / 2], kernels[i % 2], same ? "the same" : "other", kThreads);
    failures += !same;
    stof_plan_destroy(plan);
  }
  return failures == 0 ? 0 : 1;
}
