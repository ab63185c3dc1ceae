// SPDX-License-Identifier: Apache-2.0
// How many threads the parallel regions of the calling thread take, for the life of one object.
#pragma once
#include <omp.h>

namespace stof {

class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    if (threads > 0) omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;  // it restores what it found once
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace stof
