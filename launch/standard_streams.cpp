// SPDX-License-Identifier: Apache-2.0
#include "launch/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <initializer_list>

namespace trireme {

void open_standard_descriptors() noexcept {
  // open() takes the lowest number that is free: the one that was found closed.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

void outlive_readers() noexcept {
  // Not SIG_IGN, which exec() would hand down.
  std::signal(SIGPIPE, [](int) {});
}

bool flush_output() noexcept {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace trireme
