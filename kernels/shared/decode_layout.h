// SPDX-License-Identifier: Apache-2.0
// What the decode kernel reads: for rows at neighbouring positions their keys as runs of tiles, and a call of few rows.
#pragma once
#include "kernels/shared/draft_trees.h"
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

// Tiles of 64 keys that follow each other and are allowed alike.
struct DecodeRun {
  int key_start;  // a multiple of 64
  int tiles;
  int bitmap;  // 32 words, one a row of the list, bit j for the j-th key; -1: every pair is allowed
  int before;  // tiles of the list's earlier runs
};

// The keys of 16 rows at positions of one block, or of those and the 16 behind them.
struct DecodeList {
  static constexpr int kPositions = 16, kRows = 32, kTileKeys = 64;
  int first_run, runs;
  int tiles;
  int last_key;  // where the last tile starts
};

// Query heads of one key head that share a mask.
struct DecodeHeads {
  int first, count;
  int group;
};

struct DecodeLayout {
  const DecodeList* lists;  // [groups][2: of 16 rows, of 32][blocks of 16 positions]
  const DecodeRun* runs;
  const unsigned long long* words;
  const DecodeHeads* heads;  // [items of the mask][sets]; null: the sets are the key heads, all of group 0
  int sets;                  // of an item
  int blocks, first_position;
};

// A task that began in an earlier CTA and ends in this one. Its parts are the first ones of CTAs [first, first +
// count), or, unless with_first, of the first of these its last one.
struct DecodeCut {
  int task;
  int first, count;  // 0: there is no such task
  int with_first;
};

// A task is up to 64 rows of one set of heads of one item. Rows run through queries first, then through heads.
struct DecodeParams {
  static constexpr int kMostItems = 64;     // given by value: parameters end at 4 KB
  static constexpr int kMostTasks = 16384;  // of a launch
  // Of work, which is counted in int: tiles, and with each task at most kMostStart more, as `start`.
  static constexpr int kMostUnits = 0x7fffffff;
  static constexpr int kMostStart = 8;
  static constexpr int kMostGiven = 2;  // runs of a list
  const void *q, *k, *v;
  void* out;
  float* lse;  // or null
  RowStride q_stride, k_stride, v_stride, out_stride, lse_stride;
  int heads_per_kv, head_dim;
  int item_count;
  int chunks;     // tasks of a set: of the item with the most queries
  int task_rows;  // at most what the kernel has room for
  int start;      // units of beginning a task beside others of the same CTA; 0: no CTA has parts of two
  int ctas;       // of the launch that reads the keys
  int alike;      // whether all tasks have as many tiles: items are as long as each other, and heads have one mask
  // Of each task, where all are alike, as the host knows, and each tile of their list begins before the last key; else
  // 0.
  int units;
  int follows;        // the launch in front works beside this one: what is in front of both is done
  int sums_of_tasks;  // whether decode_sum_kernel has a block a task, which have `units` and are no list's, and not one
                      // a CTA
  float scale_log2;   // as in AttentionCall
  float cap_log2;
  PageTable pages;
  DraftTrees trees;
  DecodeLayout layout;
  // Of each task, where there are `units`: its list, the first of its runs, and how the units of all are shared out, as
  // DecodeShare has it. The first of `items` then says how many queries and keys each has, even where they lie in
  // item_list.
  DecodeList list;
  int each, rest;
  int given_runs;  // else 0
  DecodeRun first_runs[kMostGiven];
  const int* key_lengths;    // [items of the call] in the memory of the device, or null: what items say
  const RowItem* item_list;  // in the memory of the device, or null: `items`
  float* partials;           // [CTAs][2][rows that the kernel has room for][kHeadDim + 4]
  int* arrivals;             // [CTAs], zero before and after; or null: a launch of decode_sum_kernel adds up parts
  DecodeCut* cuts;           // [CTAs], for that launch unless its sums are of tasks
  RowItem items[kMostItems];
};
static_assert(sizeof(DecodeParams) <= 4096, "parameters of a kernel");

}  // namespace stof::cuda
