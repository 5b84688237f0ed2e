// SPDX-License-Identifier: Apache-2.0
// Keys of earlier versions, so that old files, run directories and command lines are still read.
// A key that has another name now says so in its row of the table (renamed() in fields.h); those
// that are gone stand here.
#pragma once

#include <span>
#include <string_view>

namespace trireme::config {

// A key that refused every value but one.
struct RemovedKey {
  std::string_view key;
  std::string_view only;    // the value, as a scalar's text
  std::string_view reason;  // why there was no other
};

[[nodiscard]] std::span<const RemovedKey> removed_keys();
[[nodiscard]] const RemovedKey* find_removed(std::string_view key);
// Whether such keys stood in it.
[[nodiscard]] bool is_removed_section(std::string_view name);

}  // namespace trireme::config
