/* SPDX-License-Identifier: Apache-2.0
 * Calls of plans on the GPU that fake_driver.c makes up: their sizes, memory, and ways to be given. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stof/stof.h"

int cuMemAlloc_v2(unsigned long long* address, size_t bytes);

enum { kItems = 60, kHeads = 4, kKeyHeads = 2, kLength = 1024, kDim = 64, kRuns = 4, kKept = 2 };
enum { kBytes = 2 * kItems * kHeads * kLength * kDim };

static void check(stof_status status) {
  if (status == STOF_OK) return;
  fprintf(stderr, "%s\n", stof_last_error());
  exit(1);
}

static void* device_memory(size_t bytes) {
  unsigned long long address = 0;
  if (cuMemAlloc_v2(&address, bytes) != 0) exit(1);
  memset((void*)(uintptr_t)address, 0, bytes);
  return (void*)(uintptr_t)address;
}

static int32_t lengths[kItems], offsets[kItems + 1];
static char *q, *k, *v, *out;
static float* lse;
static int32_t* numbers; /* of the device */
static void* workspace;
static size_t workspace_bytes;

/* Ways to call a plan: each a change to a padded call of full length. */
typedef void Change(stof_call* call);

static void plain(stof_call* call) { (void)call; }
static void with_lengths(stof_call* call) { call->q_lengths = call->kv_lengths = lengths; }
static void packed(stof_call* call) {
  call->cu_q = call->cu_kv = offsets;
  call->queries = call->keys = offsets[kItems];
}
static void strided_lse(stof_call* call) {
  with_lengths(call);
  call->lse = (stof_tensor){lse, kHeads * kLength, 1, kHeads};
}
static void misaligned(stof_call* call) {
  with_lengths(call);
  call->k.data = k + 2;
}
static void with_softcap(stof_call* call) {
  static const float cap = 20;
  call->softcap = &cap;
}
static void negative_scale(stof_call* call) {
  static const float scale = -1;
  with_lengths(call);
  call->scale = &scale;
}
static void steep_scale(stof_call* call) {
  static const float scale = 1e7f;
  plain(call);
  call->scale = &scale;
}
static void with_workspace(stof_call* call) {
  packed(call);
  call->workspace = workspace;
  call->workspace_bytes = workspace_bytes;
}
static void lengths_there(stof_call* call) {
  call->device_q_lengths = call->device_kv_lengths = numbers;
  call->lengths_status = (stof_lengths_status*)(numbers + 2 * kItems);
}
static void offsets_there(stof_call* call) {
  call->device_cu_q = call->device_cu_kv = numbers;
  call->queries = call->keys = kItems * kLength / 4;
  call->lse = (stof_tensor){lse, 0, 1, kHeads};
}
static void much_room(stof_call* call) {
  offsets_there(call);
  call->queries = call->keys = kItems * kLength;
}
static void pages_there(stof_call* call) {
  offsets_there(call);
  call->keys = kLength, call->device_cu_kv = NULL, call->device_kv_lengths = numbers;
  call->page_table = numbers, call->page_table_stride = kLength / 64, call->page_size = 64;
  call->pages = kItems * kLength / 64, call->k.batch_stride = call->v.batch_stride = 64 * kKeyHeads * kDim;
}
static void keys_there(stof_call* call) { call->device_kv_lengths = numbers; }

static const struct {
  const char* name;
  Change* change;
} ways[] = {{"full length", plain},
            {"lengths", with_lengths},
            {"offsets", packed},
            {"LSE by strides", strided_lse},
            {"misaligned", misaligned},
            {"softcap", with_softcap},
            {"negative scale", negative_scale},
            {"steep scale", steep_scale},
            {"workspace", with_workspace},
            {"lengths on the device", lengths_there},
            {"offsets on the device", offsets_there},
            {"offsets on the device, for full length", much_room},
            {"offsets and pages on the device", pages_there},
            {"key lengths on the device", keys_there}};

static stof_call padded(int64_t rows) {
  stof_call call = {.struct_size = sizeof call, .dtype = STOF_F16, .batch = kItems, .queries = rows, .keys = kLength};
  call.q = (stof_tensor){q, kHeads * rows * kDim, kDim, kHeads * kDim};
  call.out = (stof_tensor){out, kHeads * rows * kDim, kDim, kHeads * kDim};
  call.k = (stof_tensor){k, kKeyHeads * kLength * kDim, kDim, kKeyHeads * kDim};
  call.v = (stof_tensor){v, kKeyHeads * kLength * kDim, kDim, kKeyHeads * kDim};
  return call;
}
