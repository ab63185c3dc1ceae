// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul/instances.h"

#include "src/backend/cuda/matmul/activation_code.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

bool is_mma(const GemmInstance& i) { return i.setting.kernel == MatmulSetting::Kernel::mma; }

std::string mma_source_of(const GemmInstance& i, const std::string& epilogue) {
  return fmt::format(
      "#include \"kernels/cuda/mma_gemm.cuh\"\n"
      "namespace stof::cuda {{\n"
      "struct Instance : MmaGemmTraits<{}, MmaGemmShape{{{}, {}, {}}}, {}> {{}};\n"
      "template __global__ void mma_gemm_kernel<Instance>(const __grid_constant__ MmaGemmParams);\n"
      "extern \"C\" __device__ int kernel_facts[2] = {{sizeof(Instance::Shared), Instance::kThreads}};\n"
      "}}\n",
      i.dtype == DType::f16 ? "Half" : "Bfloat", i.setting.rows, i.setting.columns, i.setting.stages, epilogue);
}

}  // namespace

GemmInstance instance_of(const MatmulProblem& problem, const MatmulSetting& setting) {
  return {.setting = setting,
          .dtype = problem.dtype,
          .activation = problem.activation,
          .bias = problem.bias || problem.x_norm,
          .residual = problem.residual,
          .x_norm = problem.x_norm,
          .residual_norm = problem.residual_norm,
          .moments = problem.moments,
          .gate = problem.gate,
          .turned = problem.turned.heads > 0};
}

std::string name_of(const GemmInstance& i) {
  const MatmulSetting& s = i.setting;
  return fmt::format("{}gemm_{}_{}x{}_s{}_w{}_t{}_p{}_{}_b{:d}_r{:d}_x{:d}_n{:d}_m{:d}{}{}{}", is_mma(i) ? "mma_" : "",
                     name_of(i.dtype), s.rows, s.columns, s.stages, s.warpgroups, s.teams, s.split,
                     name_of(i.activation), i.bias, i.residual, i.x_norm, i.residual_norm, i.moments,
                     i.gate ? "_g1" : "", i.turned ? "_h1" : "", s.share > 1 ? fmt::format("_c{}", s.share) : "");
}

std::string line_of(const GemmInstance& i) {
  const MatmulSetting& s = i.setting;
  return fmt::format("stof_gemm({} {} {} {} {} {} {} {} {:d} {:d} {:d} {:d} {:d} {:d} {:d} {})", name_of(i.dtype),
                     s.rows, s.columns, s.stages, s.warpgroups, s.teams, s.split, name_of(i.activation), i.bias,
                     i.residual, i.x_norm, i.residual_norm, i.moments, i.gate, i.turned, s.share);
}

std::string source_of(const GemmInstance& i) {
  const MatmulSetting& s = i.setting;
  const std::string shape =
      fmt::format("GemmShape{{{}, {}, {}, {}, {}, {}{}}}", s.rows, s.columns, s.stages, s.warpgroups, s.teams, s.split,
                  s.share > 1 ? fmt::format(", {}", s.share) : "");
  const std::string epilogue =
      fmt::format("GemmEpilogue{{{}, {}, {}, {}, {}, {}, {}, {}}}", static_cast<int>(code_of(i.activation)), i.bias,
                  i.residual, i.x_norm, i.residual_norm, i.moments, i.gate, i.turned);
  if (is_mma(i)) return mma_source_of(i, epilogue);
  return fmt::format(
      "#include \"kernels/cuda/gemm.cuh\"\n"
      "namespace stof::cuda {{\n"
      "struct Instance : GemmTraits<{}, {}, {}> {{}};\n"
      "template __global__ void gemm_kernel<Instance>(const __grid_constant__ Instance::Maps,\n"
      "                                               const __grid_constant__ GemmParams);\n"
      "extern \"C\" __device__ int kernel_facts[2] = {{sizeof(Instance::Shared), Instance::kThreads}};\n"
      "}}\n",
      i.dtype == DType::f16 ? "Half" : "Bfloat", shape, epilogue);
}

}  // namespace stof::cuda
