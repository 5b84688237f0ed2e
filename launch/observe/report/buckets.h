// SPDX-License-Identifier: Apache-2.0
// Series over steps in bounded memory: neighbouring steps share a bucket that keeps the least, the
// greatest and the mean of each series, so that no spike is lost. Buckets grow as steps come.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::report {

// One series in one bucket.
struct Cell {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0, last = 0;
  std::int64_t count = 0;  // 0: the series has no value here

  void add(double value);
  void add(const Cell& later);
  [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
};

struct Bucket {
  std::int64_t first = 0, last = 0;  // steps that it has seen
  std::int64_t pass = 0;             // that wrote it
  std::vector<Cell> cells{};         // by column; those at the end may be missing
  [[nodiscard]] const Cell* cell(std::size_t column) const;
};

class Buckets {
 public:
  // At least half of `capacity` once there are as many steps, and never more.
  Buckets() = default;
  explicit Buckets(std::size_t capacity) : capacity_(capacity) {}

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  // The column of that name, made where there is none; `none` beyond 128 of them, which no version
  // writes.
  std::size_t column(std::string_view name);
  [[nodiscard]] std::size_t find(std::string_view name) const;
  [[nodiscard]] std::span<const std::string> columns() const { return names_; }

  // The bucket that `step` (from 0 on) belongs to, for the values that follow. A later `pass`
  // (a run that went back) replaces what an earlier one has left there.
  Bucket& at(std::int64_t step, std::int64_t pass);
  void add(Bucket& bucket, std::size_t column, double value);

  // The column `to` as `from` times `factor`, which is above 0; nothing without `from`, or where
  // `to` is there.
  void derive(std::string_view from, std::string_view to, double factor);

  [[nodiscard]] std::span<const Bucket> all() const { return buckets_; }
  // Steps per bucket.
  [[nodiscard]] std::int64_t stride() const { return stride_; }

 private:
  void widen();

  std::size_t capacity_ = 2000;
  std::int64_t stride_ = 1;
  std::vector<std::string> names_;
  std::vector<Bucket> buckets_;  // by step
};

}  // namespace trireme::report
