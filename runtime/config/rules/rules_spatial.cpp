// SPDX-License-Identifier: Apache-2.0
// Spatial parallelism, against the model and the sums of layout mode.
#include <fmt/ranges.h>

#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

constexpr std::string_view spatial_key = "parallel.spatial", slabs_key = "parallel.spatial_slabs";
constexpr std::size_t axes = 3;

std::string list(const std::vector<std::int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::vector<std::int64_t> multiples(const std::vector<std::int64_t>& slabs,
                                    const std::vector<std::int64_t>& ranks) {
  std::vector<std::int64_t> fitting;
  for (std::size_t axis = 0; axis < axes; ++axis)
    fitting.push_back((slabs[axis] + ranks[axis] - 1) / ranks[axis] * ranks[axis]);
  return fitting;
}

// Slabs in row-major order are the leaves of one tree, so a rank's must be a whole subtree of it.
void check_tree(const Subject& subject, const std::vector<std::int64_t>& slabs) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::vector<std::int64_t>& ranks = parallel.spatial;
  bool whole_before = true;
  std::int64_t local = 1;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (ranks[axis] > 1 && !whole_before) {
      std::vector<std::int64_t> fitting = ranks;
      for (std::size_t before = 0; before < axis; ++before)
        fitting[before] = slabs[before];
      refuse(
          subject, spatial_key,
          "{} with reproducibility: layout and slabs {}: ranks cut an axis before an earlier one "
          "has a slab on each, so their sums do not fit one tree; use {}, or slabs {}",
          list(ranks), list(slabs), list(fitting), list(ranks));
    }
    whole_before = whole_before && ranks[axis] == slabs[axis];
    local *= slabs[axis] / ranks[axis];
  }
  const std::int64_t all = parallel.inner_ranks();
  if (all > 1 && !power_of_two(local))
    refuse(
        subject, slabs_key,
        "{} with reproducibility: layout: {} slabs on each rank do not fit one tree; use a power "
        "of two of them, as {}",
        list(slabs), local, list(ranks));
}

}  // namespace

void check_spatial(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.cuts_samples()) return;
  const std::vector<std::int64_t>& ranks = parallel.spatial;
  const std::vector<std::int64_t> slabs =
      parallel.spatial_slabs.empty() ? ranks : parallel.spatial_slabs;
  const std::vector<Extent>& extents = subject.limits.axes;
  if (extents.empty())
    refuse(subject, spatial_key,
           "{} with model.family: {}, whose samples are not cut; use [1, 1, 1]", list(ranks),
           config.model.family);
  if (slabs.size() != axes)
    refuse(subject, slabs_key, "{} has {} numbers; use three, or [] for those of {} = {}",
           list(slabs), slabs.size(), spatial_key, list(ranks));
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (slabs[axis] % ranks[axis] != 0)
      refuse(subject, slabs_key, "{} are not multiples of {} = {}; use {}", list(slabs),
             spatial_key, list(ranks), list(multiples(slabs, ranks)));
    if (slabs[axis] > extents[axis].value)
      refuse(subject, slabs[axis] == ranks[axis] ? spatial_key : slabs_key,
             "{} parts of {} = {}; use {} or fewer", slabs[axis], extents[axis].name,
             extents[axis].value, extents[axis].value);
  }
  if (parallel.inner_ranks() > 1 && config.data.damaged == Damaged::skip)
    refuse(subject, "data.damaged",
           "skip with {} = {}: ranks of spatial parallelism each read a part of a sample, and "
           "would not "
           "agree whether it is damaged; use refuse",
           spatial_key, list(ranks));
  if (config.reproducibility != Reproducibility::layout) return;
  if (subject.purpose == Purpose::train && parallel.spatial_slabs.empty())
    refuse(subject, slabs_key,
           "[] with reproducibility: layout and {} = {}, so the bits would depend on "
           "spatial; use {} or multiples of it, the same in all runs that you compare",
           spatial_key, list(ranks), list(ranks));
  check_tree(subject, slabs);
}

}  // namespace trireme::config
