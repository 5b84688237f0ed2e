// SPDX-License-Identifier: Apache-2.0
#include "launch/standard_streams.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "runtime/base/terminal.h"

namespace trireme {
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
