// SPDX-License-Identifier: Apache-2.0
// The loss of a run of any length in about a hundred points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::top {

class LossCurve {
 public:
  // A step at or before the last one replaces all points from it on: the run went back.
  void add(std::int64_t step, double loss);
  // Samples the part of `path` before its last `tail` bytes, from evenly spaced lines.
  void sample(const std::string& path, std::uint64_t size, std::uint64_t tail);
  void clear();

  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] std::int64_t first_step() const { return points_.front().step; }
  // Means over equal parts of the steps, one per column; NaN if no loss was finite.
  [[nodiscard]] std::vector<double> columns(std::size_t count) const;

 private:
  struct Point {
    std::int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> points_;  // by step
  std::int64_t every_ = 1;     // interval of kept steps
};

}  // namespace trireme::top
