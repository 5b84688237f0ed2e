// SPDX-License-Identifier: Apache-2.0
// Formatting into memory that the caller owns, for text made on every step: no allocation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace trireme {

// Appends; text past the end of the memory is cut off and remembered.
class TextBuilder {
 public:
  explicit TextBuilder(std::span<char> to) : to_(to) {}

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const auto free = to_.size() - used_;
    const auto result =
        fmt::format_to_n(to_.data() + used_, free, format, std::forward<Args>(args)...);
    cut_ = cut_ || result.size > free;
    used_ += std::min(result.size, free);
  }
  [[nodiscard]] bool cut() const { return cut_; }
  [[nodiscard]] std::size_t size() const { return used_; }
  [[nodiscard]] std::string_view view() const { return {to_.data(), used_}; }

 private:
  std::span<char> to_;
  std::size_t used_ = 0;
  bool cut_ = false;
};

}  // namespace trireme
