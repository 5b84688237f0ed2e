// SPDX-License-Identifier: Apache-2.0
// Logging on spdlog: "[2026-11-22 12:01:02.345] [info] [3] [data] message". Rank 0 logs to the
// console; other ranks only warnings and errors, so that one run reads as one program.
// TRIREME_LOG=debug|info|warn|error sets what the console shows.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace trireme::log {

// Called once by main (and by test mains); before that, messages carry rank 0.
void initialize(int rank);

// From now on rank 0 shows debug lines too, unless TRIREME_LOG is set.
void show_details();

// The logger of a subsystem ("data", "comm", "train", ...); made on first use, thread-safe.
[[nodiscard]] spdlog::logger& get(std::string_view subsystem);

// From now on every line, and rank 0's debug lines, are also appended to the file `path`, starting
// with those logged so far.
// Rank 0 makes the file, other ranks append if they see it. A file that cannot be opened or written
// is no error: the console has the same lines.
void keep_in(const std::string& path);

// For lines that bypass the loggers on the console (steps, errors): writes them only to keep_in's
// file, in the loggers' form. Does nothing before keep_in. Takes no lock and allocates nothing.
void keep(spdlog::level::level_enum level, std::string_view subsystem,
          std::string_view lines) noexcept;

}  // namespace trireme::log
