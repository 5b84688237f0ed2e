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

// In ASCII, and in UTF-8 the second byte of U+0080 to U+009F, after 0xc2.
bool is_control(unsigned char letter, unsigned char before) {
  return letter < 0x20 || letter == 0x7f || (before == 0xc2 && letter >= 0x80 && letter < 0xa0);
}

// mpirun gives ranks their own pseudo-terminal.
bool has_launcher() {
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
}

FileDescriptor of_launcher(int descriptor) {
  return FileDescriptor(::open(fmt::format("/proc/{}/fd/{}", ::getppid(), descriptor).c_str(),
                               O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

std::string without_controls(std::string_view text, char before) {
  std::string shown;
  shown.reserve(text.size());
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    const bool second = code >= 0x80;
    if (letter == '\n' || letter == '\t' || !is_control(code, static_cast<unsigned char>(before))) {
      shown += letter;
    } else {
      if (second && !shown.empty()) shown.pop_back();
      shown += fmt::format("\\u{:04x}", code);
    }
    before = letter;
  }
  return shown;
}

std::string for_people(std::string_view text) {
  constexpr std::size_t longest = 16384, tail = 1024;
  if (text.size() <= longest) return without_controls(text);
  return fmt::format("{} ... ({} characters left out) ... {}",
                     without_controls(text.substr(0, longest - tail)), text.size() - longest,
                     without_controls(text.substr(text.size() - tail)));
}

std::size_t terminal_width(int descriptor) {
  // A terminal that only moves forward (TERM=dumb) cannot redraw.
  const char* const kind = std::getenv("TERM");
  if (kind == nullptr || std::string_view(kind) == "dumb") return 0;
  if (!has_launcher()) return columns(descriptor);
  const FileDescriptor launcher = of_launcher(descriptor);
  return launcher.is_open() ? columns(launcher.get()) : 0;
}

bool is_terminal(int descriptor) {
  if (!has_launcher()) return ::isatty(descriptor) == 1;
  const FileDescriptor launcher = of_launcher(descriptor);
  return launcher.is_open() && ::isatty(launcher.get()) == 1;
}

std::mutex& terminal_mutex() {
  return spdlog::details::console_mutex::mutex();
}

std::string_view line_start(int descriptor) {
  return terminal_width(descriptor) > 0 ? "\r\x1b[K" : "";
}

}  // namespace trireme
