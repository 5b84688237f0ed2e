// SPDX-License-Identifier: Apache-2.0
// The error layer. User errors say what is wrong and how to fix it; internal and library errors
// also say where: "file:line: MPI_Allreduce(...) failed: MPI_ERR_COMM (...)". `main` adds "[rank
// 3/8 host] " and ends the whole job with the error's exit code.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trireme {

// Exit codes of the command line; launch scripts depend on them.
enum class ExitCode : int {
  ok = 0,
  internal = 1,  // a bug or an exhausted resource: disk full, out of memory
  config = 2,    // usage or config file
  data = 3,
  checkpoint = 4,
  communication = 5,  // a peer failed, disagreed or hung
  non_finite = 6,     // the loss stayed NaN or infinite past its limit
  requeue = 75,       // stopped at a deadline with a checkpoint written
  given_up = 93       // by campaign and supervise: no start comes any further
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

// Raises a user error: the message carries the file, key, value and fix; no source location.
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Raises "file:line: <call> failed: <reason>", the form of all failed library calls.
[[noreturn]] void library_failed(std::string_view call, std::string_view reason,
                                 ExitCode code = ExitCode::internal,
                                 std::source_location where = std::source_location::current());

// The same for POSIX calls; the reason is errno's name and text. `subject` is usually a path.
[[noreturn]] void system_failed(std::string_view call, std::string_view subject,
                                ExitCode code = ExitCode::internal,
                                std::source_location where = std::source_location::current());

namespace detail {
[[noreturn]] void expectation_failed(std::string_view condition, const std::string& message,
                                     std::source_location where);
}

// A broken contract within our code.
#define TRIREME_EXPECTS(condition, ...)                                           \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::trireme::detail::expectation_failed(#condition, fmt::format(__VA_ARGS__), \
                                            std::source_location::current());     \
  } while (false)

// Runs `action`; prefixes the message of an Error that it raises with "<context>: ".
template <typename Action>
decltype(auto) with_context(std::string_view context, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", context, error.what()));
  }
}

// "rank 3/8 host": main sets it once after MPI is up; only messages read it.
void set_process_label(int rank, int size);
[[nodiscard]] const std::string& process_label();

}  // namespace trireme
