// SPDX-License-Identifier: Apache-2.0
// With what the log of a run (console.log) ends: an error, a warning, or where --until named.
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

// What a run logs that has done the steps of --until.
inline constexpr std::string_view until_mark = "stopped at the step that --until names";
inline constexpr std::uint64_t log_window = 16 << 10;  // bytes at the end of a log that are read

}  // namespace trireme::top
