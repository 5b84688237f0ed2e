// SPDX-License-Identifier: Apache-2.0
// Keys of earlier versions, so that old files, run directories and command lines can be read.
// Renamed keys are in their rows of the table (renamed() in fields.h); removed keys are here.
#pragma once

#include <span>
#include <string_view>

namespace trireme::config {

struct RemovedKey {
  std::string_view key;
  std::string_view only;       // the value that had no effect, as a scalar's text
  std::string_view reason;     // why other values are refused, or
  std::string_view instead{};  // the replacement; the key is then ignored with a notice
};

[[nodiscard]] std::span<const RemovedKey> removed_keys();
[[nodiscard]] const RemovedKey* find_removed(std::string_view key);
// Whether an earlier version had this section.
[[nodiscard]] bool is_removed_section(std::string_view name);

}  // namespace trireme::config
