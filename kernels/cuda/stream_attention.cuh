// SPDX-License-Identifier: Apache-2.0
// Masked attention for lists of key tiles: persistent teams, one loading warp each, fed from a queue.
#pragma once
#include "kernels/cuda/stream_consumer.cuh"
#include "kernels/cuda/stream_loader.cuh"

namespace stof::cuda {

// The team's barriers, by the four warps of its first consumers.
template <class Traits>
__device__ __forceinline__ void prepare(typename Traits::Team& team, int warp) {
  constexpr u32 kReaders = 4 * Traits::kParts * kArrivalsOfWarp;  // of a step
  if (warp == 0) {
    init_barriers(team.q_full, 1), init_barriers(team.k_full, 1);
    team.scored = 0;
  } else if (warp == 1) {
    init_barriers(team.q_empty, kReaders * Traits::kGroups + Traits::kValueLoaders * kArrivalsOfWarp);
    init_barriers(team.k_empty, kReaders);
  } else if (warp == 2) {
    init_barriers(team.v_full, 1);
  } else {
    init_barriers(team.v_empty, kReaders);
  }
  fence_barrier_init();
}

// Where in the order of row blocks a team begins. Where each gets one at most, every other team of a multiprocessor
// counts from the other end, so that who has a long one has a short one beside it, or none.
template <class Traits>
__device__ __forceinline__ int first_place(int team, const StreamParams& p) {
  const int ctas = static_cast<int>(gridDim.x), cta = static_cast<int>(blockIdx.x);
  const bool once = p.call.shape.slices * p.layout.item_count <= ctas * Traits::kTeams;
  return team * ctas + (once && team % 2 != 0 ? ctas - 1 - cta : cta);
}

// Then the loading warps let the next grid begin.
__device__ __forceinline__ constexpr bool leads(const StreamParams&) { return false; }
__device__ __forceinline__ bool leads(const ListedStreamParams& p) { return p.leads != 0; }

// out = softmax(scale q k^T, over the allowed keys) v, per slice; rows without a key give 0 and LSE -inf.
// Grid: at most slices * items CTAs of kThreads, kCtas an SM; long lists of items are dealt from p.queue.
// Needs: 16-byte aligned rows (tensor maps), keys past p.call.shape.keys forbidden by the words, or not those of an
// item. Writes: the rows of every slice, each once, by the team that held the row block (or its last part). Listed
// instances take the row blocks that p.list says there are, from the queue, or those of p.window; paged ones find keys
// by p.pages, too. They are kernels of their own: whatever is added to the others' way to a row block, were it a
// pointer that is not there, moves registers about and costs short lists 2 to 5 % (docs/kernels/attention-log.md).
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    stream_attention_kernel(const __grid_constant__ AttentionMaps maps,
                            const __grid_constant__ typename Traits::Params p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const int group = uniform(static_cast<int>(threadIdx.x) / 128),
            warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
  // In front of the branch: within it the assembler spills more of what consumers keep.
  if (group < Traits::kConsumers) {
    if (group % Traits::kTeamSize == 0) {
      prepare<Traits>(shared.teams[group / Traits::kTeamSize], warp);
      if constexpr (Traits::kStacked)
        for (auto& parts : shared.teams[group / Traits::kTeamSize].q)
          for (unsigned char* const q : parts) clear_rows_of_nothing<Traits, 128>(p, q);
    }
    if (!leads(p)) allow_next_grid();
  }
  if (group == Traits::kConsumers) {
    give_registers<Traits::kLoaderRegisters>();
    const int team = warp % Traits::kTeams, role = warp / Traits::kTeams;
    StreamLoader<Traits> loader{{p}, shared.teams[team], maps, {}, {}};
    if (role == 0) {
      loader.run(first_place<Traits>(team, p));
    } else {
      begin_together<Traits>();
      if (role == 1 && Traits::kValueLoaders) loader.run_values();
    }
  } else {
    auto& team = shared.teams[group / Traits::kTeamSize];
    begin_together<Traits>();
    take_registers<Traits::kConsumerRegisters>();
    StreamConsumer<Traits> consumer(team, maps, p, group);
    consumer.run();
  }
}

}  // namespace stof::cuda
