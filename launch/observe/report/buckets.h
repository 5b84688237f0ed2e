// SPDX-License-Identifier: Apache-2.0
// Series over steps in bounded memory: adjacent steps share a bucket with the minimum, maximum and
// mean of each series, so no spike is lost. Buckets grow as steps arrive.
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
  std::int64_t first = 0, last = 0;  // steps in it
  std::int64_t pass = 0;             // that wrote it
  std::vector<Cell> cells{};         // by column; those at the end may be missing
  [[nodiscard]] const Cell* cell(std::size_t column) const;
};

class Buckets {
 public:
  // Once there are as many steps: at least half of `capacity`, never more.
  Buckets() = default;
  explicit Buckets(std::size_t capacity) : capacity_(capacity) {}

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  // The column of that name, made if missing; `none` beyond 128 columns, which no version writes.
  std::size_t column(std::string_view name);
  [[nodiscard]] std::size_t find(std::string_view name) const;
  [[nodiscard]] std::span<const std::string> columns() const { return names_; }

  // The bucket of `step` (from 0), for the values that follow. A later `pass` (a run that went
  // back) replaces the values of an earlier one.
  Bucket& at(std::int64_t step, std::int64_t pass);
  void add(Bucket& bucket, std::size_t column, double value);

  // Makes column `to` as `from` times `factor`, which must be above 0; does nothing without `from`,
  // or if `to` exists.
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
