// SPDX-License-Identifier: Apache-2.0
// Mean, standard deviation and range of every channel: computed once over a data set, kept in a
// file, read from it or from a file of the user's own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"

namespace trireme {

struct ChannelStatistics {
  std::uint64_t count = 0;  // finite values
  std::uint64_t not_finite = 0;
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
};

// Over all samples; independent of `threads`. `progress` gets the number of samples done.
[[nodiscard]] std::vector<ChannelStatistics> compute_statistics(
    const FieldDataset& data, std::size_t threads,
    const std::function<void(std::uint64_t)>& progress);

// Over `count` samples, evenly spread.
[[nodiscard]] std::vector<ChannelStatistics> statistics_of(const FieldDataset& data,
                                                           std::int64_t count);

// JSON, atomic, and back. Raises ExitCode::data.
void write_statistics(const std::string& path, const FieldDataset& data,
                      const std::vector<ChannelStatistics>& channels);

// For the channels to read: as given, else from the statistics file. Raises ExitCode::data naming
// file and channel.
[[nodiscard]] ChannelScale load_scale(const FieldSource& source);

}  // namespace trireme
