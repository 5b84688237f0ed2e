// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/details/console_globals.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/file.h"

namespace trireme {
namespace {

std::size_t columns(int descriptor) {
  winsize size{};
  if (::isatty(descriptor) == 0 || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

std::size_t terminal_width(int descriptor) {
  // A terminal that only moves forward (TERM=dumb) cannot redraw.
  const char* const kind = std::getenv("TERM");
  if (kind == nullptr || std::string_view(kind) == "dumb") return 0;
  if (std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return columns(descriptor);
  const FileDescriptor launcher(
      ::open(fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor).c_str(),
             O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return launcher.is_open() ? columns(launcher.get()) : 0;
}

std::mutex& terminal_mutex() {
  return spdlog::details::console_mutex::mutex();
}

std::string_view line_start(int descriptor) {
  return terminal_width(descriptor) > 0 ? "\r\x1b[K" : "";
}

}  // namespace trireme
