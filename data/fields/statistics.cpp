// SPDX-License-Identifier: Apache-2.0
#include "data/fields/statistics.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/hdf5/child.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t samples_of_a_part = 16;

// Sums of one channel around a shift, which keeps the variation of large numbers.
struct Sums {
  std::uint64_t count = 0, not_finite = 0;
  double sum = 0, squares = 0;
  float minimum = std::numeric_limits<float>::infinity();
  float maximum = -std::numeric_limits<float>::infinity();
};

void add(Sums& to, const Sums& other) {
  to.count += other.count;
  to.not_finite += other.not_finite;
  to.sum += other.sum;
  to.squares += other.squares;
  to.minimum = std::min(to.minimum, other.minimum);
  to.maximum = std::max(to.maximum, other.maximum);
}

void add_sample(std::vector<Sums>& sums, const std::vector<double>& shifts,
                std::span<const float> values) {
  const std::size_t channels = sums.size();
  for (std::size_t c = 0; c < channels; ++c) {
    Sums& of = sums[c];
    const double shift = shifts[c];
    for (std::size_t i = c; i < values.size(); i += channels) {
      const float value = values[i];
      if (!std::isfinite(value)) {
        ++of.not_finite;
        continue;
      }
      const double distance = value - shift;
      of.sum += distance;
      of.squares += distance * distance;
      of.minimum = std::min(of.minimum, value);
      of.maximum = std::max(of.maximum, value);
      ++of.count;
    }
  }
}

// Each channel's first finite value of the first sample, or 0.
std::vector<double> shifts_of(std::span<const float> sample, std::size_t channels) {
  std::vector<double> shifts(channels, 0.0);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = c; i < sample.size(); i += channels) {
      if (!std::isfinite(sample[i])) continue;
      shifts[c] = sample[i];
      break;
    }
  }
  return shifts;
}

ChannelStatistics settled(const Sums& sums, double shift) {
  ChannelStatistics result{.count = sums.count, .not_finite = sums.not_finite};
  if (sums.count == 0) return result;
  const auto count = static_cast<double>(sums.count);
  const double mean = sums.sum / count;
  result.mean = shift + mean;
  result.deviation = std::sqrt(std::max(0.0, sums.squares / count - mean * mean));
  result.minimum = sums.minimum;
  result.maximum = sums.maximum;
  return result;
}

// Two numbers per channel, of all channels of the inputs.
struct Pairs {
  std::vector<double> first, second;  // mean and deviation, or minimum and maximum
  std::string source;
};

std::vector<double> numbers_at(const FileIndex& index, const StoredField& field) {
  const FieldReader reader(0);
  Box box;
  std::ranges::copy(field.extents, box.count.begin());
  constexpr std::uint64_t most = 1 << 20;
  if (field.elements() > most || field.elements() == 0)
    fail(ExitCode::data, "{}: {}: holds {} numbers, expected one per channel", index.path,
         field.name, field.elements());
  std::vector<std::byte> bytes(static_cast<std::size_t>(field.elements()) * field.type.bytes);
  reader.read(index, field, box, bytes);
  std::vector<double> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += field.type.bytes)
    numbers.push_back(to_double(field.type, field.packing, bytes.data() + at));
  return numbers;
}

Pairs pairs_of_hdf5(const FieldSource& source) {
  if (source.statistics_paths.size() != 2) {
    fail(ExitCode::config, "data.statistics_paths: give two, of {} in {}",
         source.scaling == Scaling::mean_std ? "means and deviations" : "minima and maxima",
         source.statistics);
  }
  const std::vector<std::string> files{source.statistics};
  const auto indexes = scan_in_children(files, {.fields = source.statistics_paths}, 1);
  const std::vector<StoredField>& fields = indexes.front().units.front().fields;
  return {numbers_at(indexes.front(), fields[0]), numbers_at(indexes.front(), fields[1]),
          source.statistics};
}

Pairs pairs_of_json(const FieldSource& source) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 26;
  const std::string text = read_whole_file(source.statistics, limit, ExitCode::data);
  const bool mean = source.scaling == Scaling::mean_std;
  Pairs pairs{{}, {}, source.statistics};
  try {
    const json all = parse_json<json>(text);
    const std::string of = all.value("transform", std::string(name_of(InputTransform::none)));
    if (of != name_of(source.transform))
      fail(ExitCode::data,
           "data.statistics: {}: is of numbers with data.transform: {}, but data.transform is {}; "
           "compute it again by trireme data inspect --statistics, or set data.transform: {}",
           source.statistics, of, name_of(source.transform), of);
    for (const json& channel : all.at("channels")) {
      pairs.first.push_back(channel.at(mean ? "mean" : "min").get<double>());
      pairs.second.push_back(channel.at(mean ? "std" : "max").get<double>());
    }
  } catch (const json::exception& error) {
    fail(ExitCode::data,
         "data.statistics: {}: is not a file written by trireme data inspect --statistics ({}); "
         "for an HDF5 file name the data sets in data.statistics_paths",
         source.statistics, error.what());
  }
  return pairs;
}

Pairs pairs_of(const FieldSource& source) {
  if (source.statistics.empty()) return {source.mean, source.std, "data.mean and data.std"};
  return source.statistics_paths.empty() ? pairs_of_json(source) : pairs_of_hdf5(source);
}

}  // namespace

std::vector<ChannelStatistics> statistics_of(const FieldDataset& data, std::int64_t count) {
  const auto channels = static_cast<std::size_t>(data.shape().channels());
  std::vector<float> values(static_cast<std::size_t>(data.layout().inputs.count()));
  std::vector<std::int32_t> targets(static_cast<std::size_t>(data.layout().targets.count()));
  std::vector<Sums> sums(channels);
  std::vector<double> shifts;
  for (std::int64_t i = 0; i < count; ++i) {
    data.read(i * data.size() / count, std::as_writable_bytes(std::span(values)), targets);
    if (i == 0) shifts = shifts_of(values, channels);
    add_sample(sums, shifts, values);
  }
  std::vector<ChannelStatistics> result;
  for (std::size_t c = 0; c < channels; ++c)
    result.push_back(settled(sums[c], shifts[c]));
  return result;
}

std::vector<ChannelStatistics> compute_statistics(
    const FieldDataset& data, std::size_t threads,
    const std::function<void(std::uint64_t)>& progress) {
  const auto samples = static_cast<std::uint64_t>(data.size());
  const auto channels = static_cast<std::size_t>(data.shape().channels());
  const auto elements = static_cast<std::size_t>(data.layout().inputs.count());
  const auto read = [&](std::uint64_t sample, std::vector<float>& to) {
    thread_local std::vector<std::int32_t> targets;
    targets.resize(static_cast<std::size_t>(data.layout().targets.count()));
    data.read(static_cast<std::int64_t>(sample), std::as_writable_bytes(std::span(to)), targets);
  };
  std::vector<float> first(elements);
  read(0, first);
  const std::vector<double> shifts = shifts_of(first, channels);
  // Parts of a fixed size, summed in order: no number of threads changes the result.
  const std::uint64_t parts = (samples - 1) / samples_of_a_part + 1;
  std::vector<std::vector<Sums>> sums(static_cast<std::size_t>(parts));
  std::atomic<std::uint64_t> next = 0, done = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    std::vector<float> values(elements);
    for (std::uint64_t part = next++; part < parts; part = next++) {
      try {
        std::vector<Sums>& of = sums[static_cast<std::size_t>(part)];
        of.resize(channels);
        const std::uint64_t end = std::min(samples, (part + 1) * samples_of_a_part);
        for (std::uint64_t i = part * samples_of_a_part; i < end; ++i) {
          read(i, values);
          add_sample(of, shifts, values);
          ++done;
        }
        const std::lock_guard lock(mutex);
        progress(done);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = parts;
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < threads; ++i)
      pool.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  std::vector<ChannelStatistics> result;
  for (std::size_t c = 0; c < channels; ++c) {
    Sums whole;
    for (const std::vector<Sums>& part : sums)
      add(whole, part[c]);
    result.push_back(settled(whole, shifts[c]));
  }
  return result;
}

void write_statistics(const std::string& path, const FieldDataset& data,
                      const std::vector<ChannelStatistics>& channels) {
  json rows = json::array();
  for (const ChannelStatistics& of : channels) {
    rows.push_back({{"mean", of.mean},
                    {"std", of.deviation},
                    {"min", of.minimum},
                    {"max", of.maximum},
                    {"count", of.count},
                    {"not_finite", of.not_finite}});
  }
  json all{{"format", "trireme-statistics"},
           {"samples", data.size()},
           {"fingerprint", fmt::format("{:016x}", data.fingerprint())}};
  if (data.input_transform() != InputTransform::none)
    all["transform"] = name_of(data.input_transform());
  all["channels"] = rows;
  write_file(path, all.dump(2) + "\n", ExitCode::internal);
}

ChannelScale load_scale(const FieldSource& source) {
  if (source.scaling == Scaling::none) return {};
  const Pairs pairs = pairs_of(source);
  if (pairs.first.size() != pairs.second.size())
    fail(ExitCode::data, "{}: {} numbers of one kind, but {} of the other", pairs.source,
         pairs.first.size(), pairs.second.size());
  std::vector<std::int64_t> channels = source.input_channels;
  // Numbers that are given are of the channels that are read.
  const bool given = source.statistics.empty();
  if (channels.empty() || given) {
    channels.resize(pairs.first.size());
    for (std::size_t i = 0; i < channels.size(); ++i)
      channels[i] = static_cast<std::int64_t>(i);
  }
  ChannelScale scale;
  for (const std::int64_t channel : channels) {
    const auto at = static_cast<std::size_t>(channel);
    if (at >= pairs.first.size())
      fail(ExitCode::data, "{}: has numbers for {} channels, but none for channel {}", pairs.source,
           pairs.first.size(), channel);
    const double low = pairs.first[at];
    const double range =
        source.scaling == Scaling::mean_std ? pairs.second[at] : pairs.second[at] - low;
    scale.subtract.push_back(static_cast<float>(low));
    // Constant channels become 0.
    scale.multiply.push_back(range > 0 ? static_cast<float>(1 / range) : 1.0F);
    if (!std::isfinite(scale.subtract.back()) || !std::isfinite(scale.multiply.back()) ||
        !std::isfinite(range) || range < 0)
      fail(ExitCode::data,
           "{}: channel {}: {} and {} cannot scale values in float32; give others (data.mean and "
           "data.std, or data.statistics), or use data.scaling: none",
           pairs.source, channel, low, pairs.second[at]);
  }
  return scale;
}

}  // namespace trireme
