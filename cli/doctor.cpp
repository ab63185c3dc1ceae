// SPDX-License-Identifier: Apache-2.0
// stof doctor: what this machine offers STOF, what is missing, and how to get it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "cli/short_spins.h"
#include "src/backend/cpu/attention/cost_table.h"

namespace stof::cli {
namespace {

// Something that is not there, what that costs, and what to do about it.
struct Missing {
  std::string what, effect, remedy;
};

struct Report {
  CpuFacts cpu;
  GpuFacts gpu;
  CacheFacts cache;
  cpu::CostsInUse costs;
  std::vector<Missing> missing;
};

std::vector<Missing> find_missing(const Report& report) {
  std::vector<Missing> missing;
  if (!report.cpu.bf16_dot)
    missing.push_back({"bf16 dot product (AVX512_BF16)", "bf16 runs at the speed of f32",
                       "a property of the processor; f32 gives the same results"});
  if (!report.gpu.cuda)
    missing.push_back({"NVIDIA driver (libcuda.so.1)", "everything runs on the CPU",
                       "with an NVIDIA GPU: install its driver (Debian: nvidia-driver, from non-free); in a container, "
                       "pass the GPU through"});
  else if (report.gpu.devices.empty())
    missing.push_back({"NVIDIA GPU", "everything runs on the CPU",
                       report.gpu.problem.empty() ? "the driver works and finds no device" : report.gpu.problem});
  if (!report.gpu.devices.empty() && !report.gpu.nvrtc)
    missing.push_back({"NVRTC (libnvrtc.so)", "kernels cannot be compiled at run time",
                       "pip install nvidia-cuda-nvrtc, and put its folder lib on LD_LIBRARY_PATH"});
  if (!report.gpu.devices.empty() && !report.gpu.blas)
    missing.push_back({"cuBLASLt (libcublasLt.so)", "attention runs on the GPU, whole models run on the CPU",
                       "pip install nvidia-cublas, and put its folder lib on LD_LIBRARY_PATH"});
  if (report.costs.ignored)
    missing.push_back({fmt::format("calibration that can be used ({})", report.costs.source),
                       "kernels are chosen by the built-in costs", "stof calibrate"});
  if (!report.cache.ignored_home.empty())
    missing.push_back({fmt::format("absolute path in XDG_CACHE_HOME, which is '{}'", report.cache.ignored_home),
                       fmt::format("it is ignored; the cache folder is {}", report.cache.folder.string()),
                       "name an absolute path, or unset it"});
  const std::string& problem = report.cache.problem;
  if (!report.cache.writable)
    missing.push_back({(problem.empty() ? "cache folder" : "cache folder: " + problem),
                       "what is compiled or tuned is lost at exit",
                       "point XDG_CACHE_HOME at a folder that can be written"});
  return missing;
}

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1ull << 30));
}

void print_line(std::string_view label, std::string_view text) { fmt::print("{:<18}{}\n", label, text); }

void print_text(const Report& report) {
  const CpuFacts& cpu = report.cpu;
  const GpuFacts& gpu = report.gpu;
  print_line("stof", STOF_VERSION);
  print_line("CPU", cpu.name.empty() ? "unknown" : cpu.name);
  const std::string cores = cpu.cores > 0 ? fmt::format("{} cores, ", cpu.cores) : "";
  print_line("", fmt::format("{}{} hardware threads, {} used", cores, cpu.threads, omp_get_max_threads()));
  const std::string waiting = thread_waiting();
  print_line("", fmt::format("threads wait by {}", waiting.empty() ? "OpenMP's default" : waiting));
  print_line("instruction sets", fmt::format("{}; bf16 dot product: {}, AMX: {}", fmt::join(cpu.instruction_sets, " "),
                                             cpu.bf16_dot ? "yes" : "no", cpu.bf16_matrix ? "yes" : "no"));
  print_line("memory", fmt::format("{}, {} available", gibibytes(cpu.memory_bytes), gibibytes(cpu.available_bytes)));
  for (const GpuDevice& device : gpu.devices)
    print_line("GPU", fmt::format("{}, compute capability {}, {}", device.name, device.compute_capability,
                                  gibibytes(device.memory_bytes)));
  if (gpu.devices.empty()) print_line("GPU", "none");
  print_line("NVIDIA driver",
             gpu.cuda ? fmt::format("{}, serves CUDA {}", gpu.driver.value_or("unknown version"), *gpu.cuda) : "none");
  print_line("NVRTC", gpu.nvrtc.value_or("none"));
  print_line("cuBLASLt", gpu.blas.value_or("none"));
  print_line("cache folder", fmt::format("{} ({})", report.cache.folder.string(),
                                         report.cache.writable ? "can be written" : "cannot be written"));
  print_line("kernel costs", report.costs.source);
  if (report.missing.empty()) return;
  fmt::print("\nMissing:\n");
  for (const Missing& item : report.missing)
    fmt::print("  {}\n    effect: {}\n    remedy: {}\n", item.what, item.effect, item.remedy);
}

Json optional_text(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

Json to_json(const Report& report) {
  Json devices = Json::array(), missing = Json::array();
  for (const GpuDevice& device : report.gpu.devices)
    devices.push_back({{"name", device.name},
                       {"compute_capability", device.compute_capability},
                       {"memory_bytes", device.memory_bytes}});
  for (const Missing& item : report.missing)
    missing.push_back({{"what", item.what}, {"effect", item.effect}, {"remedy", item.remedy}});
  return {{"version", STOF_VERSION},
          {"cpu",
           {{"name", report.cpu.name},
            {"cores", report.cpu.cores},
            {"hardware_threads", report.cpu.threads},
            {"threads", omp_get_max_threads()},
            {"thread_waiting", thread_waiting()},
            {"instruction_sets", report.cpu.instruction_sets},
            {"bf16_dot", report.cpu.bf16_dot},
            {"bf16_matrix", report.cpu.bf16_matrix},
            {"memory_bytes", report.cpu.memory_bytes},
            {"available_bytes", report.cpu.available_bytes}}},
          {"gpu",
           {{"devices", std::move(devices)},
            {"driver", optional_text(report.gpu.driver)},
            {"cuda", optional_text(report.gpu.cuda)},
            {"nvrtc", optional_text(report.gpu.nvrtc)},
            {"cublaslt", optional_text(report.gpu.blas)}}},
          {"cache", {{"folder", report.cache.folder.string()}, {"writable", report.cache.writable}}},
          {"calibration", {{"source", report.costs.source}, {"ignored", report.costs.ignored}}},
          {"missing", std::move(missing)}};
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Show what this machine offers, what is missing, and how to get it");
  auto json = std::make_shared<std::string>();
  command->add_option("--json", *json, "write the findings as JSON into FILE ('-': to stdout)");
  command->callback([json] {
    check_outputs({{"--json", *json, true}});
    Report report{probe_cpu(), probe_gpu(), probe_cache(), cpu::costs_in_use(), {}};
    report.missing = find_missing(report);
    if (*json != "-") print_text(report);
    if (!json->empty()) write_json(to_json(report), *json);
  });
}

}  // namespace stof::cli
