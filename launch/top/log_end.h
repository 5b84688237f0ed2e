// SPDX-License-Identifier: Apache-2.0
// The error or warning with which the log of a run (console.log) ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::top {

// Takes one more line: whatever is logged later takes the place of an error, for the run goes on or
// was started again.
void follow_log_end(std::string& end, std::string_view line);
// Empty where there is none, or no such file.
[[nodiscard]] std::string log_end_of(const std::string& path);

inline constexpr std::uint64_t log_window = 16 << 10;  // bytes at the end of a log that are read

}  // namespace trireme::top
