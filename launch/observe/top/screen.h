// SPDX-License-Identifier: Apache-2.0
// A terminal that is drawn on as a whole and read key by key, and is as it was before afterwards,
// however this program ends but for SIGKILL.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace trireme::top {

enum class Key : std::uint8_t { none, quit, up, down, first, last, redraw };

// Takes bytes as a terminal sends them, also an arrow in pieces.
class KeyReader {
 public:
  [[nodiscard]] Key take(char byte);

 private:
  std::string pending_;
};

struct ScreenSize {
  std::size_t columns = 80, rows = 24;
};

class Screen {
 public:
  // Both descriptors stay the caller's; `in` may be no terminal: then there are no keys.
  Screen(int in, int out);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] ScreenSize size() const;
  // Every line in a row of its own; there may be no more of them than rows. False where the
  // terminal is gone.
  [[nodiscard]] bool draw(std::span<const std::string> lines);
  struct Event {
    Key key = Key::none;  // none: the time is over, or the size is another
    int signal = 0;       // that ends this program, when the screen is gone
    bool closed = false;  // the terminal is gone
  };
  [[nodiscard]] Event wait(std::chrono::milliseconds limit);

 private:
  void enter();
  void leave() noexcept;
  [[nodiscard]] Event take_signal();
  [[nodiscard]] Event take_keys();

  int in_, out_;
  bool keys_ = false, entered_ = false;
  termios before_{};
  sigset_t mask_before_{};
  FileDescriptor signals_;
  KeyReader reader_;
};

}  // namespace trireme::top
