// SPDX-License-Identifier: Apache-2.0
// Logging on spdlog: "[12:01:02.345] [3] [data] message". Rank 0 logs to the console; other ranks
// only warnings and errors, so that one run reads as one program.
// TRIREME_LOG=debug|info|warn|error.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace trireme::log {

// Called once by main (and by test mains); before that, messages carry rank 0.
void initialize(int rank);

// The logger of a subsystem ("data", "comm", "train", ...); made on first use, thread-safe.
[[nodiscard]] spdlog::logger& get(std::string_view subsystem);

}  // namespace trireme::log
