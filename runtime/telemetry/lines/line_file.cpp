// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/lines/line_file.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/base/line_reader.h"
#include "runtime/base/output_directory.h"

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
  // O_EXCL: a second run that chose the same directory must not mix its lines in.
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
  // Rounded down: an unset clock may be before 1970.
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto part = std::chrono::floor<std::chrono::milliseconds>(time - second);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     part.count());
}

std::optional<double> timestamp_seconds(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < shape.size()) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (shape[i] == 'd' ? !digit : text[i] != shape[i]) return {};
  }
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    std::from_chars(text.data() + at, text.data() + at + digits, value);
    return value;
  };
  const std::chrono::year_month_day day(std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!day.ok()) return {};
  double seconds =
      86400.0 * static_cast<double>(std::chrono::sys_days(day).time_since_epoch().count()) +
      3600.0 * number(11, 2) + 60.0 * number(14, 2) + number(17, 2);
  if (text.size() > shape.size() && text[shape.size()] == '.') {
    double part = 0.1;
    for (std::size_t i = shape.size() + 1; i < text.size(); ++i, part /= 10) {
      if (text[i] < '0' || text[i] > '9') break;
      seconds += part * (text[i] - '0');
    }
  }
  return seconds;
}

void append_whole(const FileDescriptor& file, const std::string& path, std::string_view bytes,
                  std::string_view advice) {
  ssize_t put = 0;
  do {
    put = ::write(file.get(), bytes.data(), bytes.size());
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(bytes.size())) return;

  // A short write means that the disk filled up within it.
  const int reason = put < 0 ? errno : ENOSPC;
  const off_t end = ::lseek(file.get(), 0, SEEK_END);
  const bool taken_back = put <= 0 || (end >= put && ::ftruncate(file.get(), end - put) == 0);
  fail(ExitCode::internal, "{}: cannot be written: {}{}{}", path, std::strerror(reason), advice,
       taken_back ? "" : " (its last line is incomplete)");
}

}  // namespace trireme
