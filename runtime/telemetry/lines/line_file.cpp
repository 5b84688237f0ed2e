// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/lines/line_file.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "runtime/base/line_reader.h"
#include "runtime/base/output_directory.h"
#include "runtime/telemetry/lines/whole_append.h"

namespace trireme {

namespace {

std::uint64_t bytes_kept(const std::string& path, const KeepLine& keep, const CutLine& cut) {
  constexpr std::size_t longest_line = std::size_t{1} << 30;
  LineReader lines(path, longest_line, ExitCode::internal);
  std::uint64_t bytes = 0;
  bool kept = true;
  while (const auto line = lines.next()) {
    kept = kept && lines.too_long() == 0 && keep(*line);
    if (kept) {
      bytes += line->size() + 1;
    } else {
      if (!cut) break;
      cut(*line);
    }
  }
  return bytes;
}

}  // namespace

LineFile::LineFile(std::string path, const std::optional<KeepLine>& keep, const CutLine& cut)
    : path_(std::move(path)) {
  // O_EXCL: a second run that chose the same directory a moment later must not mix its lines in.
  const int exclusive = keep ? 0 : O_EXCL;
  file_ =
      OutputDirectory(parent_directory(path_), ExitCode::internal)
          .open(std::filesystem::path(path_).filename(), O_WRONLY | O_CREAT | O_APPEND | exclusive);
  if (keep && ::ftruncate(file_.get(), static_cast<off_t>(bytes_kept(path_, *keep, cut))) != 0)
    system_failed("ftruncate", path_);
}

void LineFile::append(std::string_view line) {
  if (std::exchange(failed_, true)) return;
  append_whole(file_, path_, line, "; free space there or choose another run.directory");
  failed_ = false;
}

std::string timestamp_text(std::chrono::system_clock::time_point time) {
  // Rounded down: a clock that was never set may be before 1970.
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto part = std::chrono::floor<std::chrono::milliseconds>(time - second);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     part.count());
}

}  // namespace trireme
