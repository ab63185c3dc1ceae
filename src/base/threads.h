// SPDX-License-Identifier: Apache-2.0
// How many threads there may be, and how many the parallel regions of the calling thread take.
#pragma once
#include <omp.h>

namespace stof {

// Processors that this process may run on. In a container or under taskset these are fewer than the machine has.
inline int usable_processors() { return omp_get_num_procs(); }

// Of the calling thread's parallel regions, for the life of the object.
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
