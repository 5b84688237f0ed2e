// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/run_progress.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>
#include <vector>

#include "launch/top/file_tail.h"
#include "launch/top/metrics_line.h"
#include "runtime/checkpoint/directory.h"

namespace trireme::campaign {

std::string end_of_file(const std::string& path, std::uint64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t begin = size > bytes ? size - bytes : 0;
  std::string text = top::bytes_at(file, begin, size - begin);
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

RunProgress read_progress(const std::string& run, std::int64_t from) {
  RunProgress progress;
  try {
    const auto checkpoints = list_checkpoints(run + "/checkpoints");
    if (!checkpoints.empty()) progress.checkpoint = checkpoints.back().step;
  } catch (const std::exception&) {
    progress.checkpoint = 0;  // as if it were not there: nothing depends on it but figures
  }
  std::vector<double> times;
  std::istringstream lines(end_of_file(run + "/metrics.jsonl", std::uint64_t{1} << 20U));
  for (std::string line; std::getline(lines, line);) {
    const top::MetricsLine parsed = top::parse_metrics_line(line);
    const auto* const step = std::get_if<top::StepLine>(&parsed);
    if (step == nullptr) continue;
    progress.step = step->step;
    if (step->step > from && std::isfinite(step->step_ms)) times.push_back(1e-3 * step->step_ms);
  }
  if (!times.empty()) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::ranges::nth_element(times, middle);
    progress.step_seconds = *middle;
  }
  return progress;
}

std::string final_bits(const std::string& log) {
  static const std::regex pattern(
      R"(final loss (\S+) .*exact bits (0x[^)]*)\), weights xxh3 ([0-9a-f]+))");
  std::istringstream lines(end_of_file(log));
  std::string bits;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (line.size() < 2000 && std::regex_search(line, found, pattern))
      bits = fmt::format("loss {} (exact bits {}), weights xxh3 {}", found[1].str(), found[2].str(),
                         found[3].str());
  }
  return bits;
}

}  // namespace trireme::campaign
