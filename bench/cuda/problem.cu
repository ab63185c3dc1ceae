// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/cuda/problem.cuh"

namespace stof::bench {

void check_cuda(cudaError_t status, const char* what, int line) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s (line %d): %s\n", what, line, cudaGetErrorString(status));
  std::exit(1);
}

namespace {

template <class T>
__device__ float to_float(std::uint16_t bits) {
  T value;
  memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}

template <class T>
__global__ void fill_kernel(std::uint16_t* x, std::size_t n, unsigned seed, float scale) {
  for (std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x; i < n;
       i += std::size_t(gridDim.x) * blockDim.x) {
    unsigned long long z = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    const float u = (unsigned(z) + 1.f) * 2.3283064e-10f, angle = unsigned(z >> 32) * 2.3283064e-10f;
    const T value = static_cast<T>(scale * sqrtf(-2.f * logf(fminf(u, 1.f))) * cospif(2.f * angle));
    memcpy(&x[i], &value, 2);
  }
}

struct ReferenceParams {
  const std::uint16_t *q, *k, *v, *out;
  const float* lse;
  const std::uint64_t* bits;
  const int *query_lengths, *key_lengths;
  int first_position;  // of the mask's first row
  int heads, heads_per_kv, queries, keys, head_dim, words_per_row, samples;
  long long q_row, q_head, q_item, k_row, k_head, k_item, rows;
  float scale;
  float4* result;  // per sample: |error|^2, |reference|^2, lse error, bad
};

__device__ float block_reduce(float x, bool maximum) {
  __shared__ float red[128];
  red[threadIdx.x] = x;
  __syncthreads();
  for (int i = 64; i; i >>= 1) {
    if (threadIdx.x < i)
      red[threadIdx.x] =
          maximum ? fmaxf(red[threadIdx.x], red[threadIdx.x + i]) : red[threadIdx.x] + red[threadIdx.x + i];
    __syncthreads();
  }
  const float result = red[0];
  __syncthreads();
  return result;
}

struct SampledRow {
  long long row;
  int at, item, head, kv_head, length, mask_row;
  const std::uint16_t* out;
};

// All rows of a small problem; else the first, the last, and some between.
__device__ SampledRow sampled_row(const ReferenceParams& p, int sample) {
  const int edge = p.samples / 4;
  SampledRow r{sample};
  if (p.rows > p.samples && sample >= edge)
    r.row = sample < 2 * edge ? p.rows - 1 - (sample - edge)
                              : (long long)((sample * 0x9E3779B97F4A7C15ull >> 11) % (unsigned long long)p.rows);
  const long long slice = r.row / p.queries;
  r.at = int(r.row % p.queries), r.item = int(slice / p.heads), r.head = int(slice % p.heads);
  r.kv_head = r.head / p.heads_per_kv;
  r.length = p.key_lengths ? p.key_lengths[r.item] : p.keys;
  r.mask_row = r.at + r.length - (p.query_lengths ? p.query_lengths[r.item] : p.queries) - p.first_position;
  r.out = p.out + r.item * p.q_item + r.head * p.q_head + r.at * p.q_row;
  return r;
}

// Exponentials of one row's scores, by 128 threads, with their maximum and sum.
template <class T>
__device__ float2 exponentials_of(const ReferenceParams& p, const SampledRow& r, const float* q, float* scores) {
  const std::uint16_t* keys = p.k + r.item * p.k_item + r.kv_head * p.k_head;
  float maximum = -INFINITY, sum = 0;
  for (int k = threadIdx.x; k < p.keys; k += 128) {
    float score = -INFINITY;
    if (k < r.length && (p.bits[std::size_t(r.mask_row) * p.words_per_row + k / 64] >> (k % 64) & 1)) {
      score = 0;
      for (int d = 0; d < p.head_dim; ++d) score += q[d] * to_float<T>(keys[k * p.k_row + d]);
      score *= p.scale;
    }
    scores[k] = score;
    maximum = fmaxf(maximum, score);
  }
  maximum = block_reduce(maximum, true);
  for (int k = threadIdx.x; k < p.keys; k += 128) {
    scores[k] = scores[k] == -INFINITY ? 0.f : expf(scores[k] - maximum);
    sum += scores[k];
  }
  return make_float2(maximum, block_reduce(sum, false));
}

// One block per sampled row; scores in dynamic shared memory.
template <class T>
__global__ void reference_kernel(const ReferenceParams p) {
  extern __shared__ float scores[];
  __shared__ float q[256];
  if (blockIdx.x >= p.rows) return;
  const SampledRow r = sampled_row(p, int(blockIdx.x));
  if (p.query_lengths && r.at >= p.query_lengths[r.item]) return;  // written_kernel looks at these
  for (int d = threadIdx.x; d < p.head_dim; d += 128)
    q[d] = to_float<T>(p.q[r.item * p.q_item + r.head * p.q_head + r.at * p.q_row + d]);
  __syncthreads();
  const float2 stats = exponentials_of<T>(p, r, q, scores);
  const std::uint16_t* values = p.v + r.item * p.k_item + r.kv_head * p.k_head;
  float error = 0, norm = 0, bad = 0;
  for (int d = threadIdx.x; d < p.head_dim; d += 128) {
    float expected = 0;
    for (int k = 0; k < p.keys; ++k)
      if (scores[k] != 0.f) expected += scores[k] * to_float<T>(values[k * p.k_row + d]);
    expected = stats.y > 0 ? expected / stats.y : 0.f;
    const float got = to_float<T>(r.out[d]);
    if (!(fabsf(got) < 1e30f)) bad = 1;
    error += (got - expected) * (got - expected);
    norm += expected * expected;
  }
  error = block_reduce(error, false), norm = block_reduce(norm, false), bad = block_reduce(bad, true);
  if (threadIdx.x == 0) {
    const float expected = stats.y > 0 ? stats.x + logf(stats.y) : -INFINITY;
    const float got = p.lse[r.row];
    p.result[blockIdx.x] = make_float4(error, norm, got == expected ? 0.f : fabsf(got - expected), bad);
  }
}

// NaN into the rows past the lengths: a kernel may read them, but they must not reach the result.
__global__ void spoil_kernel(std::uint16_t* x, const int* lengths, int rows, int heads, int head_dim, long long item,
                             long long head, long long row) {
  const int at = int(blockIdx.x) % rows, slice = int(blockIdx.x) / rows;
  if (at < lengths[slice / heads]) return;
  for (int d = threadIdx.x; d < head_dim; d += blockDim.x)
    x[slice / heads * item + slice % heads * head + at * row + d] = 0x7fff;
}

// Every element of rows inside the lengths was written with a number, every other one was left alone.
__global__ void written_kernel(const ReferenceParams p, bool bfloat, int* bad) {
  const long long row = blockIdx.x;
  const int slice = int(row / p.queries), at = int(row % p.queries), item = slice / p.heads, head = slice % p.heads;
  const bool written = at < (p.query_lengths ? p.query_lengths[item] : p.queries);
  const std::uint16_t* out = p.out + item * p.q_item + head * p.q_head + at * p.q_row;
  for (int d = threadIdx.x; d < p.head_dim; d += blockDim.x) {
    const float x = bfloat ? to_float<__nv_bfloat16>(out[d]) : to_float<__half>(out[d]);
    if (written ? x != x : out[d] != 0xffff) atomicAdd(bad, 1);
  }
}

struct Strides {
  long long row, head, item;
};
Strides strides_of(const Sizes& s, int rows, int heads) {
  const long long d = s.head_dim;
  return s.order == Order::head_major ? Strides{d, d * rows, d * rows * heads}
                                      : Strides{d * heads, d, d * heads * rows};
}

TensorMap make_map(const Problem& problem, void* base, int rows, int heads, int box) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  BENCH_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
  const Sizes& s = problem.sizes;
  const Strides stride = strides_of(s, rows, heads);
  const cuuint64_t residues = problem.residues;
  const cuuint64_t dims[5] = {cuuint64_t(s.head_dim), rows / residues, residues, cuuint64_t(heads),
                              cuuint64_t(s.batch)};
  const cuuint64_t strides[4] = {cuuint64_t(stride.row) * residues * 2, cuuint64_t(stride.row) * 2,
                                 cuuint64_t(stride.head) * 2, cuuint64_t(stride.item) * 2};
  const cuuint32_t boxes[5] = {64, cuuint32_t(box), 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status = reinterpret_cast<Encode>(encode)(
      &map, s.bfloat ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5, base, dims, strides,
      boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(status));
    std::exit(1);
  }
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
  TensorMap result;
  std::memcpy(&result, &map, sizeof map);
  return result;
}

ReferenceParams reference_params(const Problem& p) {
  const Sizes& s = p.sizes;
  const Strides q = strides_of(s, p.mask->queries, s.heads), k = strides_of(s, p.mask->keys, s.kv_heads);
  ReferenceParams r{};
  r.q = p.q.get(), r.k = p.k.get(), r.v = p.v.get(), r.out = p.out.get(), r.lse = p.lse.get(), r.bits = p.bits.get();
  r.query_lengths = p.device_query_lengths.get(), r.key_lengths = p.device_key_lengths.get();
  r.first_position = p.mask->keys - p.mask->queries;
  r.heads = s.heads, r.heads_per_kv = s.heads / s.kv_heads, r.queries = p.mask->queries, r.keys = p.mask->keys;
  r.head_dim = s.head_dim, r.words_per_row = p.mask->words_per_row();
  r.q_row = q.row, r.q_head = q.head, r.q_item = q.item, r.k_row = k.row, r.k_head = k.head, r.k_item = k.item;
  r.rows = (long long)s.batch * s.heads * p.mask->queries;
  r.scale = 1.f / std::sqrt(float(s.head_dim));
  return r;
}

std::size_t elements(const Sizes& s, int rows, int heads) { return std::size_t(s.batch) * heads * rows * s.head_dim; }

}  // namespace

Problem make_problem(const Sizes& sizes, const DenseMask& mask, std::vector<int> query_lengths,
                     std::vector<int> key_lengths) {
  Problem p{sizes, &mask, 1, std::move(query_lengths), std::move(key_lengths), {}, {}, {}, {}, {}, {}, {}, {}};
  const std::size_t nq = elements(sizes, mask.queries, sizes.heads), nk = elements(sizes, mask.keys, sizes.kv_heads);
  p.q = allocate<std::uint16_t>(nq), p.k = allocate<std::uint16_t>(nk), p.v = allocate<std::uint16_t>(nk);
  p.out = allocate<std::uint16_t>(nq), p.lse = allocate<float>(nq / sizes.head_dim);
  p.bits = to_device(mask.bits);
  if (!p.query_lengths.empty()) p.device_query_lengths = to_device(p.query_lengths);
  if (!p.key_lengths.empty()) p.device_key_lengths = to_device(p.key_lengths);
  const auto fill = [&](std::uint16_t* x, std::size_t n, unsigned seed, float scale) {
    if (sizes.bfloat) fill_kernel<__nv_bfloat16><<<2048, 256>>>(x, n, seed, scale);
    else fill_kernel<__half><<<2048, 256>>>(x, n, seed, scale);
  };
  fill(p.q.get(), nq, 1, 1.5f), fill(p.k.get(), nk, 2, 1.f), fill(p.v.get(), nk, 3, 1.f);
  const auto spoil = [&](std::uint16_t* x, const DeviceArray<int>& lengths, int rows, int heads) {
    if (!lengths) return;
    const Strides stride = strides_of(sizes, rows, heads);
    spoil_kernel<<<unsigned(sizes.batch * heads * rows), 64>>>(x, lengths.get(), rows, heads, sizes.head_dim,
                                                               stride.item, stride.head, stride.row);
  };
  spoil(p.q.get(), p.device_query_lengths, mask.queries, sizes.heads);
  spoil(p.k.get(), p.device_key_lengths, mask.keys, sizes.kv_heads);
  spoil(p.v.get(), p.device_key_lengths, mask.keys, sizes.kv_heads);
  BENCH_CUDA(cudaDeviceSynchronize());
  return p;
}

std::string Problem::name() const {
  char text[160];
  std::snprintf(text, sizeof text, "(%d,%d,%d,%d) %s%s", sizes.batch, sizes.heads, mask->queries, sizes.head_dim,
                mask->name.c_str(), sizes.bfloat ? " bf16" : "");
  return text;
}
double Problem::floor_us() const {
  return 2.0 * (2 * elements(sizes, mask->queries, sizes.heads) + 2 * elements(sizes, mask->keys, sizes.kv_heads)) /
         4.3e6;
}
double Problem::useful_flops() const {
  return 4.0 * sizes.head_dim * sizes.batch * sizes.heads * mask->density() * mask->queries * mask->keys;
}

AttentionMaps make_maps(const Problem& p, int key_box, int query_box) {
  const Sizes& s = p.sizes;
  return {make_map(p, p.q.get(), p.mask->queries, s.heads, query_box),
          make_map(p, p.k.get(), p.mask->keys, s.kv_heads, key_box),
          make_map(p, p.v.get(), p.mask->keys, s.kv_heads, key_box),
          make_map(p, p.out.get(), p.mask->queries, s.heads, 16)};
}

AttentionOutput output_of(const Problem& p) {
  const Strides stride = strides_of(p.sizes, p.mask->queries, p.sizes.heads);
  const long long rows = p.mask->queries;
  return {.values = p.out.get(),
          .row_stride = stride.row * p.residues,
          .residue_stride = stride.row,
          .head_stride = stride.head,
          .item_stride = stride.item,
          .lse = p.lse.get(),
          .lse_row_stride = p.residues,
          .lse_residue_stride = 1,
          .lse_head_stride = rows,
          .lse_item_stride = rows * p.sizes.heads,
          .head_dim = p.sizes.head_dim};
}

SliceShape slices_of(const Problem& p) {
  const Sizes& s = p.sizes;
  const int queries = p.mask->queries / p.residues, keys = p.mask->keys / p.residues;
  return {.slices = s.batch * s.heads * p.residues,
          .heads = s.heads,
          .heads_per_kv = s.heads / s.kv_heads,
          .residues = p.residues,
          .queries = queries,
          .keys = keys,
          .item_queries = queries,
          .item_keys = keys,
          .first_position = (p.mask->keys - p.mask->queries) / p.residues,
          .query_lengths = p.device_query_lengths.get(),
          .key_lengths = p.device_key_lengths.get()};
}

float scale_log2(const Problem& p) { return 1.4426950408889634f / std::sqrt(float(p.sizes.head_dim)); }

void poison(const Problem& p) {
  const std::size_t n = elements(p.sizes, p.mask->queries, p.sizes.heads);
  BENCH_CUDA(cudaMemset(p.out.get(), 0xff, n * 2));
  BENCH_CUDA(cudaMemset(p.lse.get(), 0xff, n / p.sizes.head_dim * 4));
}

Errors check(const Problem& p) {
  ReferenceParams r = reference_params(p);
  r.samples = 2048;
  DeviceArray<float4> result = allocate<float4>(r.samples);
  DeviceArray<int> bad = allocate<int>(1);
  r.result = result.get();
  const auto kernel = p.sizes.bfloat ? reference_kernel<__nv_bfloat16> : reference_kernel<__half>;
  BENCH_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
  kernel<<<r.samples, 128, (p.mask->keys + 16) * sizeof(float)>>>(r);
  BENCH_CUDA(cudaGetLastError());
  written_kernel<<<unsigned(r.rows), 64>>>(r, p.sizes.bfloat, bad.get());
  BENCH_CUDA(cudaGetLastError());
  std::vector<float4> rows(r.samples);
  int host_bad = 0;
  BENCH_CUDA(cudaMemcpy(rows.data(), result.get(), rows.size() * sizeof(float4), cudaMemcpyDeviceToHost));
  BENCH_CUDA(cudaMemcpy(&host_bad, bad.get(), 4, cudaMemcpyDeviceToHost));
  Errors e;
  e.bad = host_bad;
  double error = 0, norm = 0;
  for (const float4& row : rows) {
    error += row.x, norm += row.y;
    e.bad += row.w != 0;
    if (row.y > 0) e.worst_row = std::max(e.worst_row, std::sqrt(double(row.x) / row.y));
    else if (row.x > 0) e.bad += 1;
    e.lse = row.z == row.z ? std::max(e.lse, double(row.z)) : 1e9;
  }
  e.frobenius = std::sqrt(error / norm);
  return e;
}

}  // namespace stof::bench
