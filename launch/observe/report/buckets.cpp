// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/buckets.h"

#include <algorithm>
#include <utility>

namespace trireme::report {

void Cell::add(double value) {
  min = std::min(min, value);
  max = std::max(max, value);
  sum += value;
  last = value;
  ++count;
}

void Cell::add(const Cell& later) {
  min = std::min(min, later.min);
  max = std::max(max, later.max);
  sum += later.sum;
  if (later.count > 0) last = later.last;
  count += later.count;
}

const Cell* Bucket::cell(std::size_t column) const {
  return column < cells.size() && cells[column].count > 0 ? &cells[column] : nullptr;
}

std::size_t Buckets::find(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  return found == names_.end() ? none : static_cast<std::size_t>(found - names_.begin());
}

std::size_t Buckets::column(std::string_view name) {
  constexpr std::size_t most = 128;
  if (const std::size_t found = find(name); found != none || names_.size() == most) return found;
  names_.emplace_back(name);
  return names_.size() - 1;
}

Bucket& Buckets::at(std::int64_t step, std::int64_t pass) {
  const auto place_of = [&](const Bucket& bucket) { return bucket.first / stride_; };
  const auto place = [&] {
    const std::int64_t wanted = step / stride_;
    if (!buckets_.empty() && place_of(buckets_.back()) == wanted) return buckets_.end() - 1;
    return std::ranges::lower_bound(buckets_, wanted, {}, place_of);
  };
  auto found = place();
  if (found == buckets_.end() || place_of(*found) != step / stride_) {
    while (buckets_.size() >= capacity_)
      widen();
    found = place();
    if (found == buckets_.end() || place_of(*found) != step / stride_)
      found = buckets_.insert(found, Bucket{step, step, pass});
  } else if (found->pass < pass) {
    *found = Bucket{step, step, pass};
  }
  found->first = std::min(found->first, step);
  found->last = std::max(found->last, step);
  return *found;
}

void Buckets::add(Bucket& bucket, std::size_t column, double value) {
  if (column == none) return;
  if (bucket.cells.size() <= column) bucket.cells.resize(names_.size());
  bucket.cells[column].add(value);
}

void Buckets::derive(std::string_view from, std::string_view to, double factor) {
  const std::size_t source = find(from);
  if (source == none || find(to) != none) return;
  const std::size_t column_of_to = column(to);
  if (column_of_to == none) return;
  for (Bucket& bucket : buckets_) {
    const Cell* const cell = bucket.cell(source);
    if (cell == nullptr) continue;
    Cell scaled = *cell;
    for (double* const value : {&scaled.min, &scaled.max, &scaled.sum, &scaled.last})
      *value *= factor;
    bucket.cells.resize(names_.size());
    bucket.cells[column_of_to] = scaled;
  }
}

void Buckets::widen() {
  stride_ *= 2;
  std::vector<Bucket> wider;
  for (Bucket& bucket : buckets_) {
    if (wider.empty() || wider.back().first / stride_ != bucket.first / stride_) {
      wider.push_back(std::move(bucket));
      continue;
    }
    Bucket& to = wider.back();
    to.last = bucket.last;
    to.pass = std::max(to.pass, bucket.pass);
    to.cells.resize(std::max(to.cells.size(), bucket.cells.size()));
    for (std::size_t i = 0; i < bucket.cells.size(); ++i)
      to.cells[i].add(bucket.cells[i]);
  }
  buckets_ = std::move(wider);
}

}  // namespace trireme::report
