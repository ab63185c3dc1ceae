// SPDX-License-Identifier: Apache-2.0
// How the tasks of a decode launch are shared out over CTAs, and who adds up the parts of those that are cut.
#pragma once
#include <cstdint>

#include "src/backend/cuda/attention/decode_forms.h"

namespace stof::cuda {

struct DecodeLoad {
  std::int64_t tasks, tiles;  // tiles of a task, the most where they differ
  int rows;                   // of a task
  DecodeForm form;
  int readers;       // threads of a CTA that have parts of the results
  int head_dim;      // of the instance
  bool alike;        // whether all tasks have as many tiles
  bool small_pages;  // fewer keys than a tile has
};

struct DecodeDevice {
  int cores, ctas;  // multiprocessors; CTAs that each holds
  bool overlaps;    // launches that depend on each other
};
DecodeDevice decode_device(const DeviceCaps& caps, const DecodeInstance& instance, const DecodeForm& form);

struct DecodeSplit {
  int ctas;
  int start;   // DecodeParams::start
  bool apart;  // whether a launch of decode_sum_kernel adds up parts
  bool alone;  // whether a multiprocessor is to hold one CTA
};

// tasks and tiles at least 1.
DecodeSplit split_decode(const DecodeLoad& load, const DecodeDevice& device);

// Beside another launch, by a CTA in each of so many places.
DecodeSplit split_beside(const DecodeLoad& load, int places);

// Bytes of keys and values that a multiprocessor of an H200 takes in a microsecond, if the memory gives them.
double decode_bytes_us(const DecodeForm& form, int head_dim, int ctas);

// Parts of a task, on the average.
double decode_parts(const DecodeLoad& load, int ctas);

// What a launch takes on an H200, in us.
struct DecodeTimes {
  double begin;   // beside its tiles, more than one of 16 rows at d 128 does
  double tiles;   // of the CTA with the most, their keys in the L2
  double adding;  // up of the parts of tasks that are cut
};
DecodeTimes decode_times(const DecodeLoad& load, const DecodeDevice& device);

}  // namespace stof::cuda
