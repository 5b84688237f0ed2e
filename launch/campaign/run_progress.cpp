// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/run_progress.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <vector>

#include "launch/run/file_tail.h"
#include "launch/run/metrics_line.h"
#include "launch/run/run_files.h"

namespace trireme::campaign {

RunProgress read_progress(const std::string& run, std::int64_t from) {
  RunProgress progress;
  try {
    const auto stored = runs::list_stored(run);
    if (!stored.empty()) progress.checkpoint = stored.back().step;
  } catch (const std::exception&) {
    progress.checkpoint = 0;  // as if missing: only figures depend on it
  }
  std::vector<double> times;
  runs::MetricsLine line;
  runs::FileTail metrics(run + "/metrics.jsonl", std::uint64_t{1} << 20U);
  metrics.poll([] {},
               [&](std::string_view text) {
                 line.parse(text);
                 if (!line.is_step()) return;
                 progress.step = line.step();
                 const double step_ms = line.number("step_ms");
                 if (line.step() > from && std::isfinite(step_ms)) times.push_back(1e-3 * step_ms);
               });
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
  std::string bits;
  runs::FileTail(log, 64 << 10)
      .poll([] {},
            [&](std::string_view line) {
              std::cmatch found;
              if (line.size() < 2000 && std::regex_search(line.begin(), line.end(), found, pattern))
                bits = fmt::format("loss {} (exact bits {}), weights xxh3 {}", found[1].str(),
                                   found[2].str(), found[3].str());
            });
  return bits;
}

}  // namespace trireme::campaign
