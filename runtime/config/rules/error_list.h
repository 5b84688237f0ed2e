// SPDX-License-Identifier: Apache-2.0
// The errors of a config, which its user is shown all at once.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace trireme::config {

class ErrorList {
 public:
  // Runs `action` and keeps an Error of ExitCode::config that it raises. Returns whether it raised
  // none. Other errors pass, unless an error that is kept may be their cause.
  template <typename Action>
  bool attempt(Action&& action) {
    try {
      std::forward<Action>(action)();
      return true;
    } catch (const Error& error) {
      if (error.code() == ExitCode::config)
        add(error);
      else if (messages_.empty())
        throw;
      return false;
    }
  }
  void add(const Error& error) { messages_.emplace_back(error.what()); }

  // Raises a single error as it is, several as one with a line each; returns if there are none.
  void raise() const {
    if (messages_.empty()) return;
    if (messages_.size() == 1) throw Error(ExitCode::config, messages_.front());
    const std::size_t shown = std::min<std::size_t>(messages_.size(), 20);
    const std::size_t rest = messages_.size() - shown;
    fail(ExitCode::config, "{} errors in the config:\n  {}{}", messages_.size(),
         fmt::join(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(shown),
                   "\n  "),
         rest > 0 ? fmt::format("\n  and {} more", rest) : "");
  }

 private:
  std::vector<std::string> messages_;
};

}  // namespace trireme::config
