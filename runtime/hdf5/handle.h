// SPDX-License-Identifier: Apache-2.0
// Ownership and error checks for the HDF5 C library. Included only by sources that call the
// library: here, in data/hdf5 and in runtime/checkpoint.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::hdf5 {

// The library has global state and possibly no lock of its own, so every use must be inside a
// Session, one at a time. Also silences the library's printing; its error stack goes into our
// messages.
class Session {
 public:
  Session();

 private:
  std::lock_guard<std::mutex> lock_;
};

// The innermost entry of the library's error stack.
[[nodiscard]] std::string last_error();

// "newer than this program's HDF5 library, or damaged; ..." with the fix, if the library's `reason`
// is an unknown version; else "".
[[nodiscard]] std::string advice_for_newer_file(std::string_view reason);

// Raises "<call>(<subject>) failed: <reason>", or that advice for a file newer than the library.
[[noreturn]] void call_failed(std::string_view call, std::string_view subject, ExitCode code,
                              std::source_location where);

// Returns a non-negative result; a negative one is a failed call.
template <typename Result>
Result checked(Result result, std::string_view call, std::string_view subject,
               ExitCode code = ExitCode::data,
               std::source_location where = std::source_location::current()) {
  if (result < 0) call_failed(call, subject, code, where);
  return result;
}

// Owns one identifier; move only.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  operator hid_t() const { return id_; }  // NOLINT: reads as the C library's own identifier
  // Closes now and returns the library's status, because closing a file writes to it.
  [[nodiscard]] herr_t close() { return id_ < 0 ? 0 : close_(std::exchange(id_, -1)); }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// File access properties without file locks, which parallel file systems often lack; our files are
// never changed in place.
[[nodiscard]] Handle access_properties(std::string_view subject);

}  // namespace trireme::hdf5
