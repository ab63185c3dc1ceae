// SPDX-License-Identifier: Apache-2.0
// Sessions in C: loaded, described, destroyed.
#include "src/backend/contract.h"
#include "src/capi/array.h"
#include "src/capi/boundary.h"
#include "src/capi/handles.h"
#include "src/capi/session_inputs.h"

namespace {

using stof::capi::given;
using stof::capi::guarded;

stof::DType float_dtype_of(std::int32_t dtype) {
  constexpr std::string_view kName = "stof_session_load: options.dtype";
  const stof::DType found = stof::capi::dtype_of(kName, dtype);
  if (found != stof::DType::f32 && found != stof::DType::f16 && found != stof::DType::bf16)
    stof::fail(stof::ErrorKind::invalid_argument, "{} is {}; accepted: f32, f16, bf16", kName, name_of(found));
  return found;
}

stof::SessionOptions options_of(const stof_session_options* given_options) {
  const stof_session_options options = stof::capi::given_or_defaults(given_options, "stof_session_load: options");
  stof::SessionOptions result{.device = options.device == nullptr ? "auto" : options.device,
                              .dtype = float_dtype_of(options.dtype),
                              .threads = options.threads,
                              .logits = options.logits != 0,
                              .global_tokens = options.global_tokens,
                              .tuned = options.untuned == 0};
  if (options.mask != nullptr) result.mask = options.mask->mask;
  if (options.log != nullptr)
    result.log = [log = options.log, user = options.log_user](std::string_view message) {
      log(user, std::string(message).c_str());
    };
  return result;
}

std::string device_of(const stof::Session& session) {
  const stof::Device& device = session.device();
  const std::string name(device.backend->name);
  return device.backend->memory == nullptr ? name : fmt::format("{}:{}", name, device.ordinal);
}

}  // namespace

stof_status stof_session_load(const char* folder, const stof_session_options* options, stof_session** session) {
  if (session != nullptr) *session = nullptr;
  return guarded([&] {
    stof_session*& handle = given(session, "stof_session_load: session");
    const char* const of_model = &given(folder, "stof_session_load: folder");
    auto loaded = std::make_shared<const stof::Session>(stof::Session::load(of_model, options_of(options)));
    std::string device = device_of(*loaded);
    handle = new stof_session{.session = std::move(loaded), .device = std::move(device)};
  });
}

stof_status stof_session_describe(const stof_session* session, stof_session_info* info) {
  return guarded([&] {
    const stof_session& of_session = given(session, "stof_session_describe: session");
    stof_session_info& written = stof::capi::written_sized(info, "stof_session_describe: info");
    const stof::Session& s = *of_session.session;
    written = {.struct_size = sizeof written,
               .hidden_size = s.hidden_size(),
               .columns = s.columns(),
               .max_tokens = s.max_tokens(),
               .positions = s.positions(),
               .vocabulary = s.vocabulary(),
               .pooling = stof::capi::number_of(s.pooling()),
               .normalizes = s.normalizes() ? 1 : 0,
               .device = of_session.device.c_str(),
               .device_name = s.device().caps.name.c_str(),
               .pooled_columns = s.columns(s.pooling())};
  });
}

stof_status stof_session_statistics(const stof_session* session, stof_statistics* statistics) {
  return guarded([&] {
    const stof_session& of_session = given(session, "stof_session_statistics: session");
    stof_statistics& written = stof::capi::written_sized(statistics, "stof_session_statistics: statistics");
    const stof::SessionStatistics found = of_session.session->statistics();
    written = {.struct_size = sizeof written,
               .calls = found.calls,
               .plans = found.plans,
               .planned_bytes = found.planned_bytes,
               .held_bytes = found.held_bytes};
  });
}

void stof_session_destroy(stof_session* session) { delete session; }
