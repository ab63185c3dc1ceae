// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/driver/staged_copy.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/error.h"

namespace stof::cuda {
namespace {

constexpr std::size_t kHalf = std::size_t{8} << 20;
constexpr int kMostThreads = 16;

void copy_by_threads(std::byte* to, std::span<const std::byte> from) {
  constexpr std::size_t kPiece = std::size_t{256} << 10;
  const std::size_t pieces = (from.size() + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(dynamic) num_threads(std::min(kMostThreads, omp_get_max_threads()))
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = piece * kPiece;
    std::memcpy(to + begin, from.data() + begin, std::min(kPiece, from.size() - begin));
  }
}

}  // namespace

StagedCopy::StagedCopy(const Gpu& gpu) : gpu_(gpu), halves_(gpu, 2 * kHalf) {}

StagedCopy* StagedCopy::of(const Gpu& gpu) {
  static std::mutex mutex;
  // Never destroyed: the driver may be gone by then.
  static auto* const all = new std::map<int, std::unique_ptr<StagedCopy>>;
  const std::lock_guard lock(mutex);
  if (const auto known = all->find(gpu.ordinal); known != all->end()) return known->second.get();
  std::unique_ptr<StagedCopy>& place = (*all)[gpu.ordinal];
  try {
    const OutsideCapture outside;
    place.reset(new StagedCopy(gpu));
  } catch (const Error&) {
  }
  return place.get();
}

void StagedCopy::copy_in(DevicePointer to, std::span<const std::byte> from) {
  const std::lock_guard lock(mutex_);
  const CurrentGpu current(gpu_);
  auto *filling = static_cast<std::byte*>(halves_.data()), *leaving = filling + kHalf;
  for (std::size_t done = 0; done < from.size(); done += kHalf) {
    const auto part = from.subspan(done, std::min(kHalf, from.size() - done));
    copy_by_threads(filling, part);
    driver().synchronize_stream(nullptr);  // the other half is there
    driver().copy_in(to + done, filling, part.size(), nullptr);
    std::swap(filling, leaving);
  }
  driver().synchronize_stream(nullptr);
}

}  // namespace stof::cuda
