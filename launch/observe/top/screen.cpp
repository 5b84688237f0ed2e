// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <initializer_list>
#include <string_view>

namespace trireme::top {
namespace {

// Uses the alternate screen, which restores the old content at exit, and hides the cursor.
constexpr std::string_view enter_text = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
constexpr std::string_view leave_text = "\x1b[0m\x1b[?25h\x1b[?1049l";

bool put(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH})
    ::sigaddset(&set, signal);
  return set;
}

}  // namespace

Key KeyReader::take(char byte) {
  pending_ += byte;
  // CSI and SS3: terminals send either, depending on mode.
  if (pending_ == "\x1b" || pending_ == "\x1b[" || pending_ == "\x1bO") return Key::none;
  if (pending_.starts_with("\x1b[") && (byte < 0x40 || byte > 0x7e) && pending_.size() < 16)
    return Key::none;
  const std::string all = std::exchange(pending_, "");
  if (all.size() > 1 && all[0] == '\x1b') {
    switch (all.back()) {
      case 'A':
        return Key::up;
      case 'B':
        return Key::down;
      case 'H':
        return Key::first;
      case 'F':
        return Key::last;
      default:
        return Key::none;
    }
  }
  switch (byte) {
    case 'q':
    case 'Q':
    case 4:  // ^D
      return Key::quit;
    case 'k':
      return Key::up;
    case 'j':
      return Key::down;
    case 'g':
      return Key::first;
    case 'G':
      return Key::last;
    default:
      return Key::redraw;
  }
}

Screen::Screen(int in, int out) : in_(in), out_(out) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, &mask_before_);
  signals_ = FileDescriptor(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_.is_open()) {
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    system_failed("signalfd", "signals of the terminal");
  }
  keys_ = ::tcgetattr(in_, &before_) == 0;
  enter();
}

Screen::~Screen() {
  leave();
  signals_ = {};
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Screen::enter() {
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ^C and ^Z still raise signals
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    keys_ = ::tcsetattr(in_, TCSANOW, &raw) == 0;
  }
  entered_ = true;
  static_cast<void>(put(out_, enter_text));
}

void Screen::leave() noexcept {
  if (!entered_) return;
  entered_ = false;
  static_cast<void>(put(out_, leave_text));
  if (keys_) ::tcsetattr(in_, TCSANOW, &before_);
}

ScreenSize Screen::size() const {
  winsize size{};
  ScreenSize result;
  if (::ioctl(out_, TIOCGWINSZ, &size) != 0) return result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

bool Screen::draw(std::span<const std::string> lines) {
  // Overwrites in place to avoid flicker. The cursor is set for each row, since a line as wide as
  // the terminal would wrap.
  std::string text;
  std::size_t row = 0;
  for (const std::string& line : lines)
    text += fmt::format("\x1b[{};1H\x1b[K{}", ++row, line);
  if (row < size().rows) text += fmt::format("\x1b[{};1H\x1b[J", row + 1);
  return put(out_, text);
}

Screen::Event Screen::wait(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> watched{{{signals_.get(), POLLIN, 0}, {keys_ ? in_ : -1, POLLIN, 0}}};
  const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(limit.count()));
  if (ready <= 0) return {};
  if (watched[0].revents != 0) return take_signal();
  return take_keys();
}

Screen::Event Screen::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return {};
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGWINCH) return {};
  if (signal != SIGTSTP) return {.signal = signal};
  leave();
  ::raise(SIGSTOP);
  enter();  // after SIGCONT
  return {};
}

Screen::Event Screen::take_keys() {
  std::array<char, 64> bytes{};
  const ssize_t count = ::read(in_, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  if (count <= 0) return {.closed = true};
  Event event;
  for (ssize_t i = 0; i < count; ++i) {
    const Key key = reader_.take(bytes[static_cast<std::size_t>(i)]);
    if (key != Key::none) event.key = key;
    if (key == Key::quit) break;
  }
  return event;
}

}  // namespace trireme::top
