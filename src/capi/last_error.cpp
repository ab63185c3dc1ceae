// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <string>
#include <system_error>

#include "src/backend/contract.h"
#include "src/base/interrupt.h"
#include "src/capi/boundary.h"

namespace stof::capi {
namespace {

struct LastError {
  std::string text;
  const char* shown = "";  // the text, or what is said when there is no memory for it
};

LastError& last_error() {
  thread_local LastError of_thread;
  return of_thread;
}

stof_status keep(stof_status status, const char* text) noexcept {
  LastError& last = last_error();
  try {
    last.text = text;
    last.shown = last.text.c_str();
  } catch (const std::bad_alloc&) {
    last.shown = "out of memory";
  }
  return status;
}

stof_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::bad_file: return STOF_INVALID;
    case ErrorKind::unsupported: return STOF_UNSUPPORTED;
    case ErrorKind::device: return STOF_DEVICE;
    case ErrorKind::internal: return STOF_BUG;
  }
  return STOF_BUG;
}

}  // namespace

stof_status keep_failure() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(status_of(error.kind()), error.what());
  } catch (const Interrupted& interrupted) {
    return keep(STOF_INTERRUPTED, interrupted.what());
  } catch (const std::bad_alloc&) {
    return keep(STOF_DEVICE, "out of memory");
  } catch (const std::system_error& error) {
    return keep(STOF_DEVICE, error.what());
  } catch (const std::exception& error) {
    return keep(STOF_BUG, error.what());
  } catch (...) {
    return keep(STOF_BUG, "an exception of unknown type");
  }
}

void check_host_address(std::string_view of, std::string_view name, const void* address) {
  if (const std::optional<int> ordinal = cuda_backend.memory->owner(address))
    fail(ErrorKind::invalid_argument, "{}{} is memory of cuda:{}; accepted: memory of the host", of, name, *ordinal);
}

}  // namespace stof::capi

const char* stof_version(void) { return STOF_VERSION; }

const char* stof_last_error(void) { return stof::capi::last_error().shown; }
