// SPDX-License-Identifier: Apache-2.0
// Keys of earlier versions, so that old files, run directories and command lines are still read.
// A key that has another name now says so in its row of the table (renamed() in fields.h); those
// that are gone stand here.
#pragma once

#include <span>
#include <string_view>

namespace trireme::config {

struct RemovedKey {
  std::string_view key;
  std::string_view only;       // the value that asked for nothing, as a scalar's text
  std::string_view reason;     // why others are refused, or
  std::string_view instead{};  // what does now what they asked for; they are ignored with a notice
};

[[nodiscard]] std::span<const RemovedKey> removed_keys();
[[nodiscard]] const RemovedKey* find_removed(std::string_view key);
// Whether such keys stood in it.
[[nodiscard]] bool is_removed_section(std::string_view name);

}  // namespace trireme::config
