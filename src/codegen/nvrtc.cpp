// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/nvrtc.h"

#include <dlfcn.h>

#include <array>
#include <memory>
#include <optional>

#include "src/base/error.h"
#include "src/base/library_places.h"

namespace stof {
namespace fs = std::filesystem;

using Status = int;  // nvrtcResult; 0 is success
using Program = struct OpaqueProgram*;

struct Nvrtc::Api {
  void* library;
  Status (*version)(int*, int*);
  const char* (*error_text)(Status);
  Status (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                   const char* const* names);
  Status (*compile)(Program, int options, const char* const* texts);
  Status (*log_size)(Program, std::size_t*);
  Status (*log)(Program, char*);
  Status (*cubin_size)(Program, std::size_t*);
  Status (*cubin)(Program, char*);
  Status (*ptx_size)(Program, std::size_t*);
  Status (*ptx)(Program, char*);
  Status (*destroy)(Program*);

  void check(Status status, std::string_view call) const {
    if (status != 0) fail(ErrorKind::device, "{}: {}", call, error_text(status));
  }
};

namespace {

template <class Function>
void take(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) fail(ErrorKind::device, "this NVRTC lacks {}; accepted: NVRTC 12 or later", name);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

}  // namespace

Nvrtc::Nvrtc(const fs::path& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) fail(ErrorKind::device, "{}", dlerror());
  auto api = std::make_unique<Api>();
  api->library = opened;
  take(opened, "nvrtcVersion", api->version);
  take(opened, "nvrtcGetErrorString", api->error_text);
  take(opened, "nvrtcCreateProgram", api->create);
  take(opened, "nvrtcCompileProgram", api->compile);
  take(opened, "nvrtcGetProgramLogSize", api->log_size);
  take(opened, "nvrtcGetProgramLog", api->log);
  take(opened, "nvrtcGetCUBINSize", api->cubin_size);
  take(opened, "nvrtcGetCUBIN", api->cubin);
  take(opened, "nvrtcGetPTXSize", api->ptx_size);
  take(opened, "nvrtcGetPTX", api->ptx);
  take(opened, "nvrtcDestroyProgram", api->destroy);
  int major = 0, minor = 0;
  api->check(api->version(&major, &minor), "nvrtcVersion");
  path_ = library_file(opened);
  std::error_code unknown;
  const auto bytes = fs::file_size(path_, unknown);
  version_ = fmt::format("NVRTC {}.{} ({} bytes)", major, minor, unknown ? 0 : bytes);
  api_ = api.release();
}

std::string Nvrtc::compile(const CompileRequest& request) const {
  // Views of embedded files end in a zero byte that does not belong to them, as the compiler needs it.
  std::vector<std::string> names;
  std::vector<const char*> texts;
  for (const EmbeddedFile& header : request.headers) {
    names.emplace_back(header.name);
    texts.push_back(header.bytes.data());
  }
  Program program = nullptr;
  api_->check(api_->create(&program, request.source.c_str(), "kernel.cu", static_cast<int>(names.size()), texts.data(),
                           pointers(names).data()),
              "nvrtcCreateProgram");
  const auto destroy = [this](Program* made) { api_->destroy(made); };
  const std::unique_ptr<Program, decltype(destroy)> owner(&program, destroy);

  const std::vector<std::string> options = {"--gpu-architecture=" + request.target, std::string(kCompileOption)};
  const Status status = api_->compile(program, static_cast<int>(options.size()), pointers(options).data());
  if (status != 0) {
    std::size_t size = 0;
    std::string log;
    if (api_->log_size(program, &size) == 0) log.resize(size);
    if (size == 0 || api_->log(program, log.data()) != 0) log.clear();
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    fail(ErrorKind::unsupported, "the kernel does not compile for {} ({}: {}):\n{}", request.target, version_,
         api_->error_text(status), log);
  }
  const bool is_text = request.target.starts_with("compute_");
  std::size_t size = 0;
  if (is_text) api_->check(api_->ptx_size(program, &size), "nvrtcGetPTXSize");
  else api_->check(api_->cubin_size(program, &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  if (is_text) api_->check(api_->ptx(program, code.data()), "nvrtcGetPTX");
  else api_->check(api_->cubin(program, code.data()), "nvrtcGetCUBIN");
  return code;
}

std::vector<fs::path> nvrtc_places() {
  constexpr std::array<std::string_view, 2> kNames{"libnvrtc.so.13", "libnvrtc.so.12"};
  return library_places(kNames, "cuda_nvrtc");
}

const Nvrtc* find_nvrtc() {
  static const std::optional<Nvrtc> found = [] {
    std::optional<Nvrtc> first;
    for (const fs::path& place : nvrtc_places()) {
      try {
        first.emplace(place);
        break;
      } catch (const Error&) {  // not there, or of no use: the next may be
      }
    }
    return first;
  }();
  return found ? &*found : nullptr;
}

}  // namespace stof
