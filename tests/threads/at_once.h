// SPDX-License-Identifier: Apache-2.0
// The same work from several threads that begin together.
#pragma once
#include <latch>
#include <thread>
#include <vector>

namespace stof {

// Calls body(t) for t in [0, threads). OpenMP regions inside have one thread each where OMP_NUM_THREADS is 1, as under
// the thread sanitizer: it does not know the barriers of OpenMP's library, and would report every one.
template <class Body>
void at_once(int threads, Body&& body) {
  std::latch begin(threads);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      begin.arrive_and_wait();
      body(t);
    });
  for (std::thread& thread : running) thread.join();
}

}  // namespace stof
