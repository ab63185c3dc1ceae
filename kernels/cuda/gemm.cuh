// SPDX-License-Identifier: Apache-2.0
// Matrix product with what follows it in a transformer: a persistent kernel that loads by bulk copies and multiplies
// with warpgroup instructions.
#pragma once
#include "kernels/cuda/gemm_consumer.cuh"
#include "kernels/cuda/gemm_facts.cuh"
#include "kernels/cuda/gemm_loader.cuh"

namespace stof::cuda {

// The barriers of the loads: by the warp that asks for them, which need not wait for the others then.
template <class Traits>
__device__ __forceinline__ void prepare_loads(typename Traits::Shared& shared) {
  for (int i = 0; i < Traits::kStages; ++i) barrier_init(shared_address(&shared.full[i]), 1);
  fence_barrier_init();
}
template <class Traits>
__device__ __forceinline__ void prepare_barriers(typename Traits::Shared& shared) {
  for (int i = 0; i < Traits::kStages; ++i)
    barrier_init(shared_address(&shared.empty[i]), Traits::kWarps * Traits::kShare);
  for (int i = 0; i < Traits::kBoxes; ++i) {
    for (int team = 0; team < Traits::kTeams; ++team) barrier_init(shared_address(&shared.ready[team][i]), 1);
    barrier_init(shared_address(&shared.staged[i]), Traits::kWarps);
  }
  for (int i = 0; i < Traits::kTeams; ++i) barrier_init(shared_address(&shared.turn[i]), Traits::kWarps);
  for (int i = 0; i < Traits::kSlots; ++i) {
    barrier_init(shared_address(&shared.facts_full[i]), Traits::kRowFacts ? 1 + 64 : 1);
    barrier_init(shared_address(&shared.facts_empty[i]), 32 * Traits::kWarps);
  }
  barrier_init(shared_address(&shared.all_sums), 1 + 2 * Traits::kOwnRows);  // 32 threads have 16 rows
  fence_barrier_init();
  if constexpr (Traits::kSplit > 1)
    barrier_expect(shared_address(&shared.all_sums), sizeof(shared.incoming) / Traits::kSplit * (Traits::kSplit - 1));
}

// out = activation(norm(x) w^T + bias) + norm(residual), stored in 16 bits; x [rows, inner], w [columns, inner].
// Or, with heads of q and k turned by the positions of rows: turned(norm(x) w^T + bias).
// A norm of x is applied to the sums: w comes scaled by it, (x - mean) w' = x w' - mean * column_sum(w').
// Grid: at most as many CTAs as there are tiles; with kSplit > 1, a cluster of kSplit for each tile; with kShare > 1,
// clusters of kShare, of which the last CTAs may have no rows.
// Needs: columns and inner multiples of 8, rows of all matrices contiguous, addresses multiples of 16.
// Writes: rows below `rows`, each element once; moments of them.
template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kCtas)
    gemm_kernel(const __grid_constant__ typename Traits::Maps maps, const __grid_constant__ GemmParams p) {
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Traits::Shared*>(raw);
  const int group = uniform(static_cast<int>(threadIdx.x) / 128),
            warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
  GemmLoader<Traits> loader(shared, maps, p);
  if (group == Traits::kConsumers && warp == 0) {
    if (elected()) prepare_loads<Traits>(shared);
    __syncwarp();
    if constexpr (Traits::kShare == 1) loader.load_first_weights();
  } else if (group == Traits::kConsumers && warp == 1) {
    if (elected()) prepare_barriers<Traits>(shared);
  }
  __syncthreads();
  if constexpr (Traits::kCluster > 1) cluster_arrive();
  if (group == Traits::kConsumers) {
    if constexpr (Traits::kDealsRegisters) give_registers<Traits::kLoaderRegisters>();
    if (warp == 0) {
      if constexpr (Traits::kShare > 1) {
        cluster_wait();  // the others have made the barriers that this warp's loads count
        loader.load_first_weights();
      }
      loader.run();
    } else if (warp == 1) {
      ask_for_next_weight(p);
      if constexpr (Traits::kSplit == 1) {
        if (elected()) carry_output<Traits>(shared, maps, p);
      }
    } else if constexpr (Traits::kHasFacts) {
      make_facts<Traits>(shared, p, warp - 2);
    }
    __syncwarp();
    if (Traits::kSplit > 1 || (Traits::kShare > 1 && warp != 0)) cluster_wait();
  } else {
    if constexpr (Traits::kDealsRegisters) take_registers<Traits::kConsumerRegisters>();
    GemmConsumer<Traits>(shared, p, group).run();
  }
}

}  // namespace stof::cuda
