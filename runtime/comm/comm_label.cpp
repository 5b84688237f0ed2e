// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/comm_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

thread_local std::int64_t current_step = -1;
thread_local std::string_view current_text;

}  // namespace

std::string CommLabel::to_string() const {
  std::string result;
  if (text[0] != '\0') result += fmt::format(" \"{}\"", text.data());
  if (step >= 0) result += fmt::format(" of step {}", step);
  return result;
}

CommLabel current_comm_label() noexcept {
  CommLabel label;
  label.step = current_step;
  std::copy_n(current_text.data(), std::min(current_text.size(), label.text.size() - 1),
              label.text.data());
  return label;
}

void set_comm_step(std::int64_t step) noexcept {
  current_step = step;
}

ScopedCommLabel::ScopedCommLabel(std::string_view text) noexcept
    : outer_(std::exchange(current_text, text)) {}

ScopedCommLabel::~ScopedCommLabel() {
  current_text = outer_;
}

}  // namespace trireme
