// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/instances.h"

#include <fmt/format.h>

#include <array>

namespace stof::cuda {
namespace {

constexpr std::array kStream = {
    StreamInstance{32, 4, 1, 1, 2, 1, 1},  StreamInstance{64, 4, 1, 1, 2, 1, 1},  StreamInstance{64, 1, 1, 1, 2, 3, 1},
    StreamInstance{64, 2, 2, 1, 4, 1, 1},  StreamInstance{64, 1, 4, 1, 6, 1, 1},  StreamInstance{64, 2, 1, 1, 4, 1, 2},
    StreamInstance{64, 1, 1, 1, 8, 1, 4},  StreamInstance{96, 1, 3, 1, 3, 1, 1},  StreamInstance{96, 1, 1, 1, 2, 2, 1},
    StreamInstance{128, 1, 2, 2, 2, 1, 1}, StreamInstance{128, 1, 3, 1, 3, 1, 1}, StreamInstance{128, 2, 1, 1, 2, 1, 1},
    StreamInstance{128, 1, 1, 1, 4, 1, 2}, StreamInstance{192, 1, 2, 1, 2, 1, 1}, StreamInstance{256, 1, 1, 1, 2, 1, 1},
};
constexpr std::array kBand = {
    BandInstance{64, 1, 96, 5}, BandInstance{64, 1, 128, 4}, BandInstance{64, 1, 192, 3},
    BandInstance{64, 2, 96, 2}, BandInstance{64, 2, 128, 2},
};
constexpr std::array kGather = {GatherInstance{64, 4, 4}, GatherInstance{64, 5, 3}, GatherInstance{128, 4, 2}};

}  // namespace

std::span<const StreamInstance> stream_instances() { return kStream; }
std::span<const BandInstance> band_instances() { return kBand; }
std::span<const GatherInstance> gather_instances() { return kGather; }

std::string name_of(const StreamInstance& i, DType dtype) {
  return fmt::format("stream_{}_d{}_t{}_p{}_k{}_s{}_c{}_g{}", name_of(dtype), i.head_dim, i.teams, i.parts, i.tiles,
                     i.stages, i.ctas, i.groups);
}

std::string name_of(const BandInstance& i, DType dtype) {
  return fmt::format("band_{}_d{}_p{}_k{}_c{}", name_of(dtype), i.head_dim, i.parts, i.keys, i.ctas);
}

std::string name_of(const GatherInstance& i, DType dtype) {
  return fmt::format("gather_{}_d{}_n{}_c{}", name_of(dtype), i.head_dim, i.pieces, i.ctas);
}

}  // namespace stof::cuda
