// SPDX-License-Identifier: Apache-2.0
// A full-screen terminal with key input; restored however this program ends, except by SIGKILL.
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

// Decodes terminal input, including escape sequences in pieces.
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
  // The caller owns both descriptors; if `in` is not a terminal there are no keys.
  Screen(int in, int out);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] ScreenSize size() const;
  // One line per row, at most as many as rows. False if the terminal is gone.
  [[nodiscard]] bool draw(std::span<const std::string> lines);
  struct Event {
    Key key = Key::none;  // none: timeout, or resized
    int signal = 0;       // ends this program, after restoring the terminal
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
