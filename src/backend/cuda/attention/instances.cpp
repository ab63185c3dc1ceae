// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/instances.h"

#include <fmt/format.h>

#include <array>

namespace stof::cuda {
namespace {

constexpr StreamInstance stacked(StreamInstance instance) {
  instance.stacked = true;
  return instance;
}

constexpr std::array kStream = {
    StreamInstance{32, 4, 1, 1, 2, 1, 1},     StreamInstance{32, 2, 2, 1, 4, 1, 1},
    StreamInstance{32, 2, 1, 1, 4, 1, 2},     StreamInstance{32, 1, 3, 1, 6, 1, 1},
    StreamInstance{64, 4, 1, 1, 2, 1, 1},     StreamInstance{64, 1, 1, 1, 2, 3, 1},
    StreamInstance{64, 1, 1, 1, 3, 3, 1},     StreamInstance{64, 2, 2, 1, 4, 1, 1},
    StreamInstance{64, 1, 4, 1, 6, 1, 1},     StreamInstance{64, 1, 3, 1, 6, 1, 1},
    StreamInstance{64, 2, 1, 1, 4, 1, 2},     StreamInstance{64, 1, 1, 1, 8, 1, 4},
    StreamInstance{96, 1, 2, 1, 4, 1, 1},     StreamInstance{96, 1, 3, 1, 4, 1, 1, 1},
    StreamInstance{96, 2, 1, 1, 2, 1, 1},     StreamInstance{96, 1, 1, 1, 4, 1, 2},
    StreamInstance{128, 1, 2, 2, 2, 1, 1},    StreamInstance{128, 1, 3, 1, 3, 1, 1},
    StreamInstance{128, 1, 3, 1, 4, 1, 1, 1}, StreamInstance{128, 2, 1, 1, 2, 1, 1},
    StreamInstance{128, 1, 1, 1, 4, 1, 2},    StreamInstance{192, 1, 1, 1, 2, 1, 1},
    StreamInstance{192, 1, 2, 1, 3, 1, 1, 1}, StreamInstance{256, 1, 1, 1, 2, 1, 1, 2, 1},
    StreamInstance{256, 1, 2, 1, 2, 1, 1, 1}, stacked({64, 1, 1, 1, 8, 1, 4}),
    stacked({64, 2, 1, 1, 4, 1, 2}),          stacked({64, 2, 2, 1, 4, 1, 1}),
    stacked({96, 1, 2, 1, 4, 1, 1}),          stacked({128, 1, 1, 1, 4, 1, 2}),
    stacked({128, 1, 2, 2, 2, 1, 1}),         stacked({128, 1, 3, 1, 3, 1, 1}),
    stacked({256, 1, 1, 1, 2, 1, 1, 2, 1}),   stacked({256, 1, 2, 1, 2, 1, 1, 1}),
};
constexpr std::array kBand = {
    BandInstance{64, 1, 96, 5},   BandInstance{64, 1, 128, 4},  BandInstance{64, 1, 192, 3},
    BandInstance{64, 1, 256, 2},  BandInstance{64, 2, 96, 2},   BandInstance{64, 2, 128, 2},
    BandInstance{96, 1, 96, 2},   BandInstance{96, 1, 128, 2},  BandInstance{96, 1, 192, 1},
    BandInstance{96, 1, 256, 1},  BandInstance{128, 1, 96, 2},  BandInstance{128, 1, 128, 2},
    BandInstance{128, 1, 192, 1}, BandInstance{128, 1, 256, 1}, BandInstance{256, 1, 96, 1},
    BandInstance{256, 1, 128, 1},
};
constexpr std::array kGather = {GatherInstance{64, 4, 4}, GatherInstance{64, 5, 3}};
constexpr std::array kMma = {
    MmaInstance{32, 1, 1, 2, 4},  MmaInstance{64, 1, 1, 2, 4},  MmaInstance{64, 2, 2, 2, 2},
    MmaInstance{96, 1, 1, 2, 2},  MmaInstance{128, 1, 1, 2, 2}, MmaInstance{128, 2, 2, 1, 2},
    MmaInstance{192, 1, 1, 1, 2}, MmaInstance{256, 1, 1, 1, 2},
};

constexpr std::array kDecode = {DecodeInstance{64, 2, 2}, DecodeInstance{128, 2, 2}, DecodeInstance{256, 1, 1}};

}  // namespace

int shared_kilobytes(int arch) {
  switch (arch) {
    case 80:
    case 87: return 164;
    case 90:
    case 100:
    case 103: return 228;
    default: return 100;
  }
}

std::span<const StreamInstance> stream_instances() { return kStream; }
std::span<const BandInstance> band_instances() { return kBand; }
std::span<const GatherInstance> gather_instances() { return kGather; }
std::span<const MmaInstance> mma_instances() { return kMma; }
std::span<const DecodeInstance> decode_instances() { return kDecode; }

int ctas_of(const MmaInstance& instance, const DeviceCaps& caps) {
  return std::min(instance.ctas, shared_kilobytes(caps.arch) * 1024 / (instance.shared_bytes() + 1024));
}

int ctas_of(const DecodeInstance& instance, const DeviceCaps& caps) {
  // Kilobytes, with the one that the multiprocessor keeps: a CTA of narrow heads on 8.6 has 99, of which it needs all.
  const int beside = instance.head_dim > 128 ? 19 : 4;
  const int ring = caps.arch >= 90 ? 192 / instance.ctas : instance.head_dim == 256 ? 128 : 96;
  return std::min(instance.ctas, shared_kilobytes(caps.arch) / (ring + beside));
}

std::string name_of(const StreamInstance& i, DType dtype) {
  return fmt::format("stream_{}_d{}_t{}_p{}_k{}_s{}_c{}_g{}{}{}{}", name_of(dtype), i.head_dim, i.teams, i.parts,
                     i.tiles, i.stages, i.ctas, i.groups, i.queries == 1 ? "_q1" : "", i.more_keys == 1 ? "_m1" : "",
                     i.stacked ? "_stacked" : "");
}

std::string name_of(const StreamInstance& i, DType dtype, StreamForm form) {
  return name_of(i, dtype) + (form == StreamForm::capped ? "_capped" : "_biased");
}

std::string source_of(const StreamInstance& i, DType dtype, StreamForm form) {
  constexpr std::string_view kSource = R"(#include "kernels/cuda/stream_attention.cuh"
namespace stof::cuda {{
struct Instance : StreamTraits<{}, {}, StreamShape{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}}}> {{}};
template __global__ void stream_attention_kernel<Instance>(const __grid_constant__ AttentionMaps,
                                                           const __grid_constant__ {});
extern "C" __device__ int kernel_facts[2] = {{sizeof(Instance::Shared), Instance::kThreads}};
}}
)";
  STOF_CHECK(dtype == DType::f16 || dtype == DType::bf16);
  const bool capped = form == StreamForm::capped;
  return fmt::format(kSource, dtype == DType::f16 ? "Half" : "Bfloat", i.head_dim, i.teams, i.parts, i.tiles, i.stages,
                     i.ctas, i.groups, i.queries, capped, i.more_keys, i.stacked, capped ? "" : ", false, false, true",
                     capped ? "StreamParams" : "BiasedStreamParams");
}

std::string name_of(const BandInstance& i, DType dtype) {
  return fmt::format("band_{}_d{}_p{}_k{}_c{}", name_of(dtype), i.head_dim, i.parts, i.keys, i.ctas);
}

std::string name_of(const GatherInstance& i, DType dtype) {
  return fmt::format("gather_{}_d{}_n{}_c{}", name_of(dtype), i.head_dim, i.pieces, i.ctas);
}

std::string name_of(const MmaInstance& i, DType dtype) {
  return fmt::format("mma_{}_d{}_p{}_w{}_s{}_c{}", name_of(dtype), i.head_dim, i.parts, i.slabs, i.stages, i.ctas);
}

std::string name_of(const DecodeInstance& i, DType dtype) {
  return fmt::format("decode_{}_d{}_c{}", name_of(dtype), i.head_dim, i.ctas);
}

std::string wide_name_of(const DecodeInstance& i, DType dtype) {
  return fmt::format("decode_{}_d{}_g{}", name_of(dtype), i.head_dim, i.warpgroups);
}

}  // namespace stof::cuda
