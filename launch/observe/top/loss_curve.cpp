// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/loss_curve.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "launch/run/file_tail.h"
#include "launch/run/metrics_line.h"

namespace trireme::top {
namespace {

constexpr std::size_t most_points = 512;
constexpr std::uint64_t samples = 96, sample_bytes = 8 << 10;

// Parses the first whole step line of `text`, if there is one.
bool find_step(std::string_view text, runs::MetricsLine& line) {
  for (std::size_t from = text.find('\n'); from != std::string_view::npos;) {
    const std::size_t end = text.find('\n', from + 1);
    if (end == std::string_view::npos) return false;
    line.parse(text.substr(from + 1, end - from - 1));
    if (line.is_step()) return true;
    from = end;
  }
  return false;
}

}  // namespace

void LossCurve::clear() {
  points_.clear();
  every_ = 1;
}

void LossCurve::add(std::int64_t step, double loss) {
  while (!points_.empty() && points_.back().step >= step)
    points_.pop_back();
  if (!points_.empty() && step - points_.back().step < every_) return;
  points_.push_back({step, loss});
  if (points_.size() < most_points) return;
  for (std::size_t i = 0; 2 * i < points_.size(); ++i)
    points_[i] = points_[2 * i];
  points_.resize((points_.size() + 1) / 2);
  every_ = std::max<std::int64_t>(2 * every_, (points_.back().step - points_.front().step) /
                                                  static_cast<std::int64_t>(points_.size()));
}

void LossCurve::sample(const std::string& path, std::uint64_t size, std::uint64_t tail) {
  if (size <= tail) return;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return;
  runs::MetricsLine line;
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint64_t offset = (size - tail) / samples * i;
    const std::string text = "\n" + bytes_at(file, offset, sample_bytes);
    // Only at offset 0 the text is known to start with a whole line.
    const std::string_view from = std::string_view(text).substr(offset == 0 ? 0 : 1);
    if (find_step(from, line)) add(line.step(), line.number("loss"));
  }
}

std::vector<double> LossCurve::columns(std::size_t count) const {
  std::vector<double> sums(count, 0.0), values(count, std::numeric_limits<double>::quiet_NaN());
  if (points_.empty() || count == 0) return {};
  const std::int64_t first = points_.front().step;
  const auto steps = static_cast<double>(points_.back().step - first + 1);
  // With fewer points than columns, each point has a column.
  const bool few = points_.size() <= count;
  std::vector<std::int64_t> counts(count, 0);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const double place = static_cast<double>(points_[i].step - first) / steps;
    const std::size_t column =
        few ? i : static_cast<std::size_t>(place * static_cast<double>(count));
    if (!std::isfinite(points_[i].loss)) continue;
    sums[column] += points_[i].loss;
    ++counts[column];
  }
  for (std::size_t i = 0; i < count; ++i)
    if (counts[i] > 0) values[i] = sums[i] / static_cast<double>(counts[i]);
  if (few) values.resize(points_.size());
  // Columns between distant steps repeat the previous value.
  for (std::size_t i = 1; i < values.size() && !few; ++i)
    if (std::isnan(values[i])) values[i] = values[i - 1];
  return values;
}

}  // namespace trireme::top
