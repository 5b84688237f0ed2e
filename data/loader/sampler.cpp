// SPDX-License-Identifier: Apache-2.0
#include "data/loader/sampler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/philox.h"

namespace trireme {

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), ramp_(options.ramp.value_or(BatchRamp(options.global_batch))) {
  const std::int64_t samples = options.samples, batch = options.global_batch;
  TRIREME_EXPECTS(samples > 0 && batch > 0, "{} samples in global batches of {}", samples, batch);
  const bool pad = options.last_batch == LastBatch::pad;
  if (samples < batch && !pad) {
    fail(ExitCode::data,
         "the data set has {} samples, fewer than one global batch (train.global_batch = {}); "
         "lower train.global_batch to "
         "{} or less, pack more data, or set data.last_batch: pad",
         samples, batch, samples);
  }
  steps_per_epoch_ = steps_from(0, batch);
  for (const BatchRamp::Phase& phase : ramp_.phases()) {
    const Place at = starts_.empty() ? Place{} : place(phase.first_step);
    starts_.push_back({phase.first_step, phase.size, at.epoch, at.position});
  }
}

// Number of batches of one size left in an epoch from a position on.
std::int64_t Sampler::steps_from(std::int64_t position, std::int64_t size) const {
  const std::int64_t left = std::max<std::int64_t>(options_.samples - position, 0);
  return options_.last_batch == LastBatch::pad ? (left + size - 1) / size : left / size;
}

// Start of a step's batch.
Sampler::Place Sampler::place(std::int64_t step) const {
  const Start& start = *std::prev(std::ranges::upper_bound(starts_, step, {}, &Start::first_step));
  std::int64_t steps = step - start.first_step;
  const std::int64_t rest = steps_from(start.position, start.size);
  if (steps < rest) return {start.epoch, start.position + steps * start.size};
  steps -= rest;
  const std::int64_t whole = steps_from(0, start.size);
  return {start.epoch + 1 + steps / whole, steps % whole * start.size};
}

double Sampler::epochs(std::int64_t done) const {
  if (mixture_ || ramp_.phases().size() == 1)
    return static_cast<double>(done) / static_cast<double>(steps_per_epoch_);
  const Place at = place(done);
  return static_cast<double>(at.epoch) +
         static_cast<double>(at.position) / static_cast<double>(options_.samples);
}

Sampler::Sampler(std::shared_ptr<const MixtureOrder> mixture)
    : options_{.global_batch = mixture->global_batch()},
      ramp_(mixture->global_batch()),
      mixture_(std::move(mixture)),
      steps_per_epoch_(mixture_->steps_per_epoch()) {}

SampleId Sampler::at(std::int64_t step, std::int64_t slot) const {
  if (mixture_) return mixture_->at(step, slot);
  TRIREME_EXPECTS(step >= 0 && slot >= 0 && slot < ramp_.size_at(step), "slot {} of step {}", slot,
                  step);
  const Place first = place(step);
  const std::int64_t epoch = first.epoch, position = (first.position + slot) % options_.samples;
  if (!options_.shuffle) return {epoch, position};
  if (options_.block > 1) {
    const auto whole = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
    return {epoch,
            static_cast<std::int64_t>(block_order(whole(options_.samples), whole(options_.block),
                                                  options_.seed, whole(epoch), whole(position)))};
  }
  const Permutation order(static_cast<std::uint64_t>(options_.samples), options_.seed,
                          static_cast<std::uint64_t>(epoch));
  return {epoch, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(position)))};
}

std::vector<std::int64_t> Sampler::samples(std::int64_t step) const {
  std::vector<std::int64_t> samples;
  for (std::int64_t slot = 0; slot < ramp_.size_at(step); ++slot)
    samples.push_back(at(step, slot).sample);
  return samples;
}

std::uint64_t Sampler::samples_digest(std::int64_t step) const {
  const auto all = samples(step);
  return checksum_of({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(all.front())});
}

namespace {

constexpr unsigned rounds = 8;

constexpr std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  TRIREME_EXPECTS(size > 0 && size <= (std::uint64_t{1} << 62), "a permutation of {} elements",
                  size);
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  TRIREME_EXPECTS(index < size_, "position {} of {}", index, size_);
  const Philox philox = Philox::keyed(seed_, RandomPurpose::shuffle);
  const auto scramble = [&](unsigned round, std::uint64_t half) {
    const auto words = philox(epoch_, (std::uint64_t{round} << 32) | half);
    return words[0];
  };
  do {
    // Halves of unequal width stay in place and alternate, so every width gives a bijection.
    std::uint64_t low = index & mask(low_bits_), high = index >> low_bits_;
    for (unsigned round = 0; round < rounds; round += 2) {
      high ^= scramble(round, low) & mask(high_bits_);
      low ^= scramble(round + 1, high) & mask(low_bits_);
    }
    index = (high << low_bits_) | low;
  } while (index >= size_);
  return index;
}

std::uint64_t block_order(std::uint64_t samples, std::uint64_t block, std::uint64_t seed,
                          std::uint64_t epoch, std::uint64_t position) {
  constexpr std::uint64_t together = 16;
  // Keys of the permutations inside windows, and of the short block's place, beside an epoch's.
  const auto key = [&](std::uint64_t which) { return which << 32 | epoch; };
  const std::uint64_t window = std::min(block, samples) * together;
  const std::uint64_t first = position / window * window;
  const Permutation inside(std::min(window, samples - first), seed, key(first / window + 2));
  const std::uint64_t at = first + inside(position - first);
  const std::uint64_t full = samples / block, rest = samples % block;
  if (full == 0) return at;
  const std::uint64_t before = Permutation(full + 1, seed, key(1))(0) * block;
  if (rest > 0 && at >= before && at < before + rest) return full * block + at - before;
  const std::uint64_t place = at < before ? at : at - rest;
  return Permutation(full, seed, epoch)(place / block) * block + place % block;
}

}  // namespace trireme
