// SPDX-License-Identifier: Apache-2.0
#include "launch/guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/types.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "launch/cli/shared_options.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/terminal.h"
#include "runtime/comm/mpi.h"
#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/gpu_facts.h"

namespace trireme {
namespace {

[[noreturn]] void end_job(ExitCode code, const std::string& message) {
  // Most errors (config, data) occur on all ranks: rank 0 then prints and ends the job before the
  // others do, which takes it some tenths of a second while MPI is not up.
  if (launcher_rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  if (!message.empty()) print_error(message);
  abort_job(static_cast<int>(code));
}

}  // namespace

int launcher_rank() {
  return launched_rank().value_or(0);
}

int guarded_main(const std::function<int()>& body) {
  enlarge_thread_stacks();
  static_cast<void>(prepare_gpu_environment());
  open_standard_streams();
  restore_hangup();
  // Then a file size limit (ulimit -f) fails the write, which names the file, instead of killing
  // the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    check_cpu_supports_build();
    const int code = body();
    if (const int lost = flush_output(); code == 0 && lost != 0)
      fail(ExitCode::internal, "standard output cannot be written to: {}", std::strerror(lost));
    return code;
  } catch (const SharedError& error) {
    end_job(error.code(), launcher_rank() == 0 ? error.what() : "");
  } catch (const Error& error) {
    end_job(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_job(ExitCode::internal, "out of host memory");
  } catch (const std::system_error& error) {
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    end_job(ExitCode::internal,
            thread ? "no more threads can be started: this user has too little memory (ulimit -v) "
                     "or too many processes (ulimit -u, limits of the container)"
                   : error.what());
  } catch (const std::exception& error) {
    end_job(ExitCode::internal, error.what());
  }
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words = with_current_commands({argv + 1, argv + argc});
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return static_cast<int>(ExitCode::ok);
  } catch (const CLI::Success& help_or_version) {
    if (launcher_rank() != 0) return 0;
    std::ostringstream text;
    const int code = app.exit(help_or_version, text, text);
    fmt::print("{}", text.str());
    return code;
  } catch (
      const CLI::RuntimeError& ended) {  // raised by the command itself, which printed the reason
    return end_job_alike(ended.get_exit_code());
  } catch (const CLI::ParseError& error) {
    throw SharedError(ExitCode::config,
                      usage_advice(app, words, error) + "\nRun with --help for more information.");
  }
}

namespace {

struct StandardStream {
  int descriptor;
  bool shows_controls;
  int error = 0;  // errno of the first failed write
  char last = '\0';
};
// Loggers write coloured lines to standard error; they and print_error() escape texts themselves.
StandardStream standard_output{STDOUT_FILENO, true}, standard_error{STDERR_FILENO, false};

void write_what_can_be(StandardStream& stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(stream.descriptor, text.data(), text.size());
    if (wrote >= 0) {
      text.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (errno != EINTR) {
      if (stream.error == 0) stream.error = errno;
      break;
    }
  }
}

// Always reports success: otherwise fmt::print() would throw in the middle of the work.
ssize_t write_to(void* cookie, const char* data, std::size_t size) {
  auto& stream = *static_cast<StandardStream*>(cookie);
  const std::string_view text(data, size);
  if (!stream.shows_controls) {
    write_what_can_be(stream, text);
  } else if (!text.empty()) {
    write_what_can_be(stream, without_controls(text, std::exchange(stream.last, text.back())));
  }
  return static_cast<ssize_t>(size);
}

// Wraps `file`; without memory returns the usual stream.
std::FILE* wrapped(std::FILE* file, StandardStream& stream, int buffering) {
  std::FILE* const own = ::fopencookie(
      &stream, "w", {.read = nullptr, .write = write_to, .seek = nullptr, .close = nullptr});
  if (own == nullptr) return file;
  static_cast<void>(std::setvbuf(own, nullptr, buffering, BUFSIZ));
  return own;
}

}  // namespace

void open_standard_streams() noexcept {
  // open() returns the lowest free number: the closed descriptor.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
  // Not SIG_IGN, which exec() would pass on.
  std::signal(SIGPIPE, [](int) {});
  stdout = wrapped(stdout, standard_output, ::isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
  stderr = wrapped(stderr, standard_error, _IONBF);
}

void end_with_reader() noexcept {
  std::signal(SIGPIPE, SIG_DFL);
}

void give_text_as_it_is(bool to_terminals) noexcept {
  standard_output.shows_controls = !to_terminals && is_terminal(STDOUT_FILENO);
}

int flush_output() noexcept {
  static_cast<void>(std::fflush(stdout));
  return standard_output.error == EPIPE ? 0 : standard_output.error;
}

}  // namespace trireme
