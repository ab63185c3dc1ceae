// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/matmul.h"

#include <map>
#include <mutex>
#include <variant>

#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/matmul/compile_ahead.h"
#include "src/backend/cuda/matmul/epilogue.h"
#include "src/backend/cuda/matmul/gemm.h"
#include "src/backend/cuda/matmul/gemv.h"
#include "src/backend/cuda/matmul/mma_gemm.h"
#include "src/backend/cuda/matmul/product.h"
#include "src/backend/cuda/matmul/settings.h"
#include "src/backend/cuda/rows.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

// What NVIDIA recommends for Hopper; algorithms that split the inner dimension need some.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

class Linear {
 public:
  explicit Linear(const LinearSpec& spec)
      : gpu_(gpu_of(*spec.device)),
        weights_(gpu_, spec),
        gemm_{.gpu = gpu_,
              .weights = weights_,
              .problem = problem_of(spec, 0),
              .x_epsilon = spec.x_norm     ? spec.x_norm->epsilon
                           : spec.own_norm ? spec.own_norm->epsilon
                                           : 0.f,
              .residual_epsilon = spec.residual_norm ? spec.residual_norm->epsilon : 0.f} {}

  void run(const LinearCall& call) const {
    if (call.rows == 0 || weights_.columns == 0) return;
    const MatmulSetting setting = call.setting != nullptr ? *call.setting : own_choice(call);
    if (setting.kernel == MatmulSetting::Kernel::cublaslt) run_blas(call);
    else std::visit([&](const auto& launch) { launch.run(gemm_, call); }, launch_of(setting));
  }

  PackedMatrix matrix() const { return weights_.matrix; }
  std::span<const std::byte> weight() const {
    const DeviceMemory& values = weights_.matrix->values;
    return {values.as<std::byte>(), values.bytes()};
  }

  void prepare(const MatmulSetting& setting) const {
    if (setting.kernel != MatmulSetting::Kernel::cublaslt) {
      launch_of(setting);
      return;
    }
    BlasDevice::of(gpu_);
    const MatmulProblem& problem = gemm_.problem;
    if (plain_epilogue(problem.activation, problem.bias).anything_after()) prepare_add(gpu_, problem.dtype);
  }

 private:
  MatmulSetting own_choice(const LinearCall& call) const {
    MatmulProblem problem = gemm_.problem;
    problem.rows = call.rows;
    const std::optional<MatmulSetting> gemv = best_gemv(problem, gpu_.caps);
    if (gemv && gemv_takes_addresses(call)) return *gemv;
    if (!refuses(problem, gpu_.caps, {})) return {};
    if (problem.few_rows)
      fail(ErrorKind::unsupported, "a matmul for few rows: {}",
           refuses(problem, gpu_.caps, gemv_settings().back()).value_or("operands at odd addresses"));
    return settings_of(problem, gpu_.caps).front().setting;
  }

  using AnyLaunch = std::variant<GemmLaunch, MmaGemmLaunch, GemvLaunch>;

  const AnyLaunch& launch_of(const MatmulSetting& setting) const {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<AnyLaunch>& place = launches_[setting];
    if (!place) {
      MatmulProblem problem = gemm_.problem;
      problem.rows = 1;
      if (const auto why_not = refuses(problem, gpu_.caps, setting)) fail(ErrorKind::unsupported, "{}", *why_not);
      switch (setting.kernel) {
        case MatmulSetting::Kernel::mma: place = made<MmaGemmLaunch>(setting); break;
        case MatmulSetting::Kernel::gemv: place = made<GemvLaunch>(setting); break;
        default: place = made<GemmLaunch>(setting);
      }
    }
    return *place;
  }

  template <class Launch>
  std::unique_ptr<AnyLaunch> made(const MatmulSetting& setting) const {
    return std::make_unique<AnyLaunch>(std::in_place_type<Launch>, gemm_, setting);
  }

  void run_blas(const LinearCall& call) const {
    const MatmulProblem& problem = gemm_.problem;
    if (const auto why_not = refuses(problem, gpu_.caps, {})) fail(ErrorKind::unsupported, "{}", *why_not);
    for (const Epilogue& epilogue : {epilogue_of(problem.activation, problem.bias, problem.dtype),
                                     plain_epilogue(problem.activation, problem.bias)}) {
      if (!multiply(call, epilogue.inside)) continue;
      if (epilogue.anything_after())
        row_operations.add({.rows = call.rows, .columns = problem.columns, .dtype = problem.dtype, .queue = call.queue},
                           call.out, epilogue.bias_after ? Addend{weights_.exact_bias.as<void>(), true} : Addend{},
                           epilogue.activation_after, call.out);
      return;
    }
    fail(ErrorKind::unsupported, "cuBLASLt refused a matmul of [{}, {}] and [{}, {}] in {}", call.rows, problem.inner,
         problem.inner, problem.columns, name_of(problem.dtype));
  }

  bool multiply(const LinearCall& call, BlasEpilogue epilogue) const {
    const bool residual = gemm_.problem.residual;
    const ProductKey key{.rows = call.rows,
                         .columns = weights_.columns,
                         .inner = weights_.inner,
                         .dtype = gemm_.problem.dtype,
                         .epilogue = epilogue,
                         .residual = residual,
                         .x_alignment = alignment_of(call.x),
                         .weight_alignment = alignment_of(weights_.matrix->values.as<void>()),
                         .residual_alignment = residual ? alignment_of(call.residual) : 256,
                         .out_alignment = alignment_of(call.out),
                         .workspace_bytes = call.queue.workspace == nullptr ? 0 : call.queue.workspace_bytes};
    return BlasDevice::of(gpu_).multiply(key,
                                         {.x = call.x,
                                          .weight = weights_.matrix->values.as<void>(),
                                          .bias = weights_.bias.as<void>(),
                                          .residual = residual ? call.residual : nullptr,
                                          .out = call.out},
                                         {.workspace = call.queue.workspace,
                                          .workspace_bytes = key.workspace_bytes,
                                          .stream = static_cast<StreamHandle>(call.queue.stream)});
  }

  const Gpu& gpu_;
  PackedWeights weights_;
  GemmLinear gemm_;
  mutable std::mutex mutex_;
  mutable std::map<MatmulSetting, std::unique_ptr<AnyLaunch>> launches_;
};

// Of calls of so many rows as every matmul has to take.
MatmulProblem least_problem(const LinearSpec& spec) {
  return problem_of(spec, spec.few_rows ? 1 : GemvGrid::kMostRows + 1);
}

bool takes(const LinearSpec& spec) { return any_takes(least_problem(spec), spec.device->caps); }

PackedLinear pack(const LinearSpec& spec) {
  STOF_CHECK(!spec.weight.empty() && spec.device != nullptr);
  if (spec.dtype != DType::f32 && spec.dtype != DType::f16 && spec.dtype != DType::bf16)
    fail(ErrorKind::unsupported, "no matmul in {} on CUDA; accepted: f32, f16, bf16", name_of(spec.dtype));
  if (spec.residual_norm) STOF_CHECK(spec.residual);
  if (!takes(spec))
    fail(ErrorKind::unsupported, "no matmul on CUDA takes this:{}",
         refusals_of(least_problem(spec), spec.device->caps));
  return std::make_shared<const Linear>(spec);
}

PackedMatrix pack_matrix(const LinearSpec& spec) { return static_cast<const Linear*>(pack(spec).get())->matrix(); }

std::vector<MatmulChoice> settings(const LinearSpec& spec, std::int64_t rows) {
  return settings_of(problem_of(spec, rows), spec.device->caps);
}

std::optional<std::string> refuses_setting(const LinearSpec& spec, std::int64_t rows, const MatmulSetting& setting) {
  return refuses(problem_of(spec, rows), spec.device->caps, setting);
}

void wake(const Device& device, DType dtype) {
  if (device.ordinal == kDescribed) return;
  try {
    BlasDevice::of(gpu_of(device)).wake(dtype);
  } catch (const Error&) {
  }
}

void prepare(const PackedLinear& linear, const MatmulSetting& setting) {
  static_cast<const Linear*>(linear.get())->prepare(setting);
}

void run(const PackedLinear& linear, const LinearCall& call) { static_cast<const Linear*>(linear.get())->run(call); }

std::span<const std::byte> weight(const PackedLinear& linear) {
  return static_cast<const Linear*>(linear.get())->weight();
}

}  // namespace

const MatmulOperations matmul_operations{.pack = pack,
                                         .takes = takes,
                                         .pack_matrix = pack_matrix,
                                         .run = run,
                                         .pairs_gates = true,
                                         .few_rows = GemvGrid::kMostRows,
                                         .wake = wake,
                                         .workspace_bytes = kWorkspaceBytes,
                                         .settings = settings,
                                         .refuses = refuses_setting,
                                         .prepare = prepare,
                                         .weight = weight,
                                         .is_built_in = is_built_in};

}  // namespace stof::cuda
