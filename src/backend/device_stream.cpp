// SPDX-License-Identifier: Apache-2.0
#include "src/backend/device_stream.h"

#include <chrono>

namespace stof {

// By the host's clock, where a device has none.
double DeviceStream::time(const RecordedWork& work, int launches) {
  synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int launch = 0; launch < launches; ++launch) work.launch();
  synchronize();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace stof
