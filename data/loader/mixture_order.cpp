// SPDX-License-Identifier: Apache-2.0
#include "data/loader/mixture_order.h"

#include <algorithm>
#include <cmath>

#include "data/loader/sampler.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr int block_bits = 16;
constexpr std::uint64_t block_size = std::uint64_t{1} << block_bits;
constexpr int share_bits = 32;
constexpr std::uint64_t whole_share = std::uint64_t{1} << share_bits;
// Intervals of adjacent blocks differ by one key at either end, and none may be negative.
constexpr double least_share = 2.0 / static_cast<double>(block_size);

std::uint64_t reversed(std::uint64_t offset) {
  std::uint64_t key = 0;
  for (int bit = 0; bit < block_bits; ++bit)
    key |= (offset >> bit & 1) << (block_bits - 1 - bit);
  return key;
}

// Number of keys below a share in the blocks before `block`.
std::uint64_t keys_before(std::uint64_t block, std::uint64_t share) {
  const auto keys = static_cast<unsigned __int128>(block) * block_size;
  return static_cast<std::uint64_t>(keys * share >> share_bits);
}

// Number of keys below a share in one block.
std::uint64_t keys_in(std::uint64_t block, std::uint64_t share) {
  return keys_before(block + 1, share) - keys_before(block, share);
}

// Number of the first `offset` positions of a block with keys below `limit`. Each set bit of
// `offset` is a group of positions with known upper bits and arbitrary `free` lower ones, so their
// keys are equally spaced.
std::uint64_t count_below(std::uint64_t offset, std::uint64_t scramble, std::uint64_t limit) {
  std::uint64_t count = 0;
  for (int free = 0; free <= block_bits; ++free) {
    if ((offset >> free & 1) == 0) continue;
    const std::uint64_t first = offset >> free << free ^ std::uint64_t{1} << free;
    const std::uint64_t distance = block_size >> free;
    const std::uint64_t lowest = (reversed(first) ^ scramble) & (distance - 1);
    if (limit > lowest) count += (limit - lowest + distance - 1) / distance;
  }
  return count;
}

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

}  // namespace

MixtureOrder::MixtureOrder(const MixtureOptions& options) : options_(options), starts_{0} {
  TRIREME_EXPECTS(!options.sources.empty() && options.global_batch > 0 && options.steps > 0,
                  "{} sources, batches of {}, {} steps", options.sources.size(),
                  options.global_batch, options.steps);
  for (const MixtureSource& source : options.sources)
    starts_.push_back(starts_.back() + source.samples);
  std::vector<std::int64_t> drawn(options.sources.size(), 0);
  for (std::int64_t step = 0; step < options.steps;) {
    const std::vector<bool> in = sources_at(step, drawn);
    phases_.push_back(make_phase(step, in, drawn));
    step = end_of(phases_.back(), in);
    const std::int64_t positions = (step - phases_.back().first_step) * options_.global_batch;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      drawn[i] = drawn_before(phases_.back(), i, positions);
  }
}

std::vector<bool> MixtureOrder::sources_at(std::int64_t step,
                                           std::span<const std::int64_t> drawn) const {
  std::vector<bool> in;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const MixtureSource& source = options_.sources[i];
    // A source with less than a whole batch left has completed its epochs.
    const bool has_left = source.most_epochs == 0 ||
                          drawn[i] + options_.global_batch <= source.most_epochs * source.samples;
    in.push_back(has_left && step >= source.first_step &&
                 (source.end_step == 0 || step < source.end_step));
  }
  return in;
}

MixtureOrder::Phase MixtureOrder::make_phase(std::int64_t step, const std::vector<bool>& in,
                                             std::vector<std::int64_t> drawn) const {
  std::vector<double> shares;
  double sum = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const MixtureSource& source = options_.sources[i];
    const double weight = source.weight > 0 ? source.weight : static_cast<double>(source.samples);
    shares.push_back(in[i] ? std::pow(weight, 1 / options_.temperature) : 0);
    sum += shares.back();
  }
  if (sum == 0)
    fail(ExitCode::config,
         "data.sources: no source is in the mixture at step {} of train.steps = {}: all have "
         "reached their data.source_epochs, or are outside data.source_from and data.source_until; "
         "change these, or train fewer steps",
         step, options_.steps);
  Phase phase{step, {0}, std::move(drawn)};
  double before = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] && shares[i] < least_share * sum)
      fail(ExitCode::config,
           "data.weights: {} gets {:.2g} of the samples from step {} on, but the minimum is "
           "{:.2g}; raise its weight or data.weight_temperature, or leave it out",
           options_.sources[i].name, shares[i] / sum, step, least_share);
    before += shares[i];
    phase.shares.push_back(
        static_cast<std::uint64_t>(std::llround(before / sum * static_cast<double>(whole_share))));
  }
  // The last source in the mixture ends at exactly 1.
  for (std::size_t i = phase.shares.size(); i-- > 1 && !in[i - 1];)
    phase.shares[i - 1] = phase.shares[i] = whole_share;
  phase.shares.back() = whole_share;
  return phase;
}

std::int64_t MixtureOrder::end_of(const Phase& phase, const std::vector<bool>& in) const {
  std::int64_t end = options_.steps;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const MixtureSource& source = options_.sources[i];
    for (const std::int64_t border : {source.first_step, source.end_step}) {
      if (border > phase.first_step) end = std::min(end, border);
    }
    if (!in[i] || source.most_epochs == 0) continue;
    // The last step for which it has samples; sources_at() ensures one batch.
    std::int64_t good = phase.first_step + 1, bad = end + 1;
    while (bad - good > 1) {
      const std::int64_t step = good + (bad - good) / 2;
      const std::int64_t position = (step - phase.first_step) * options_.global_batch;
      const bool fits = drawn_before(phase, i, position) <= source.most_epochs * source.samples;
      (fits ? good : bad) = step;
    }
    end = std::min(end, good);
  }
  return end;
}

std::uint64_t MixtureOrder::scramble(const Phase& phase, std::uint64_t block) const {
  const auto step = static_cast<std::uint64_t>(phase.first_step);
  return mixed(mixed(options_.seed + 1) ^ mixed(step + 2) ^ mixed(~block)) & (block_size - 1);
}

std::int64_t MixtureOrder::drawn_before(const Phase& phase, std::size_t source,
                                        std::int64_t position) const {
  const auto block = static_cast<std::uint64_t>(position) / block_size;
  const auto offset = static_cast<std::uint64_t>(position) % block_size;
  const std::uint64_t low = phase.shares[source], high = phase.shares[source + 1];
  const std::uint64_t key = scramble(phase, block);
  const std::uint64_t whole = keys_before(block, high) - keys_before(block, low);
  const std::uint64_t part = count_below(offset, key, keys_in(block, high)) -
                             count_below(offset, key, keys_in(block, low));
  return phase.drawn[source] + static_cast<std::int64_t>(whole + part);
}

SampleId MixtureOrder::at(std::int64_t step, std::int64_t slot) const {
  TRIREME_EXPECTS(step >= 0 && slot >= 0 && slot < options_.global_batch, "slot {} of step {}",
                  slot, step);
  const auto after = std::ranges::upper_bound(phases_, step, {}, &Phase::first_step);
  const Phase& phase = *std::prev(after);
  const std::int64_t position = (step - phase.first_step) * options_.global_batch + slot;
  const auto block = static_cast<std::uint64_t>(position) / block_size;
  const auto offset = static_cast<std::uint64_t>(position) % block_size;
  const std::uint64_t key = reversed(offset) ^ scramble(phase, block);
  std::size_t source = 0;
  while (key >= keys_in(block, phase.shares[source + 1]))
    ++source;
  const std::int64_t number = drawn_before(phase, source, position);
  const std::int64_t samples = options_.sources[source].samples;
  const std::int64_t epoch = number / samples;
  auto place = static_cast<std::uint64_t>(number % samples);
  if (options_.shuffle) {
    const Permutation order(static_cast<std::uint64_t>(samples), options_.seed ^ mixed(source + 1),
                            static_cast<std::uint64_t>(epoch));
    place = order(place);
  }
  return {epoch, starts_[source] + static_cast<std::int64_t>(place)};
}

std::int64_t MixtureOrder::steps_per_epoch() const {
  return std::max<std::int64_t>(1, starts_.back() / options_.global_batch);
}

std::vector<std::int64_t> MixtureOrder::drawn(std::int64_t step) const {
  const auto after = std::ranges::upper_bound(phases_, step, {}, &Phase::first_step);
  const Phase& phase = *std::prev(after);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < options_.sources.size(); ++i)
    all.push_back(drawn_before(phase, i, (step - phase.first_step) * options_.global_batch));
  return all;
}

}  // namespace trireme
