// SPDX-License-Identifier: Apache-2.0
#include "launch/standard_streams.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <initializer_list>

namespace trireme {
namespace {

struct Stream {
  int descriptor;
  int error = 0;  // errno of the first write that failed
};
Stream standard_output{STDOUT_FILENO}, standard_error{STDERR_FILENO};

// Says that all was written: fmt::print() throws at anything else, in the midst of the work.
ssize_t write_what_can_be(void* cookie, const char* data, std::size_t size) {
  auto& stream = *static_cast<Stream*>(cookie);
  for (std::size_t done = 0; done < size;) {
    const ssize_t wrote = ::write(stream.descriptor, data + done, size - done);
    if (wrote >= 0) {
      done += static_cast<std::size_t>(wrote);
    } else if (errno != EINTR) {
      if (stream.error == 0) stream.error = errno;
      break;
    }
  }
  return static_cast<ssize_t>(size);
}

// `file`, or without memory the usual stream.
std::FILE* wrapped(std::FILE* file, Stream& stream, int buffering) {
  std::FILE* const own = ::fopencookie(
      &stream, "w",
      {.read = nullptr, .write = write_what_can_be, .seek = nullptr, .close = nullptr});
  if (own == nullptr) return file;
  static_cast<void>(std::setvbuf(own, nullptr, buffering, BUFSIZ));
  return own;
}

}  // namespace

void open_standard_streams() noexcept {
  // open() takes the lowest number that is free: the one that was found closed.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
  // Not SIG_IGN, which exec() would hand down.
  std::signal(SIGPIPE, [](int) {});
  stdout = wrapped(stdout, standard_output, ::isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
  stderr = wrapped(stderr, standard_error, _IONBF);
}

void end_with_reader() noexcept {
  std::signal(SIGPIPE, SIG_DFL);
}

int flush_output() noexcept {
  static_cast<void>(std::fflush(stdout));
  return standard_output.error == EPIPE ? 0 : standard_output.error;
}

}  // namespace trireme
