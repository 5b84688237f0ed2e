// SPDX-License-Identifier: Apache-2.0
// The sample at each position: a pure function of (seed, step, slot), equal on every rank and in
// every layout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/loader/mixture_order.h"
#include "runtime/config/batch_ramp.h"

namespace trireme {

struct SamplerOptions {
  std::int64_t samples = 0;       // N
  std::int64_t global_batch = 0;  // G
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t block = 1;  // consecutive samples that stay together
  LastBatch last_batch = LastBatch::drop;
  std::optional<BatchRamp> ramp{};  // up to G; nothing: always G
};

class Sampler {
 public:
  // Raises ExitCode::data if there are fewer samples than one global batch, unless padding.
  explicit Sampler(const SamplerOptions& options);
  // For several sources.
  explicit Sampler(std::shared_ptr<const MixtureOrder> mixture);

  // drop: N / G rounded down; pad: rounded up. With a mixture: over the samples of all sources.
  [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  [[nodiscard]] std::int64_t global_batch() const { return options_.global_batch; }
  [[nodiscard]] const BatchRamp& ramp() const { return ramp_; }
  // Fractional passes over the data after `done` steps.
  [[nodiscard]] double epochs(std::int64_t done) const;
  // The sample at `slot` in [0, G) of the global batch of `step` (from 0). Position i = (step mod
  // steps_per_epoch) * G + slot of epoch step / steps_per_epoch holds permutation(seed, epoch)(i
  // mod N), or with blocks block_order; MixtureOrder defines mixtures. On a ramp, steps of another
  // size continue where the previous ones ended: a batch that crosses the end of an epoch starts
  // the next one, or is filled up like the last batch of an epoch.
  [[nodiscard]] SampleId at(std::int64_t step, std::int64_t slot) const;
  // The samples of a step in global batch order, and their digest for a run's certificate.
  [[nodiscard]] std::vector<std::int64_t> samples(std::int64_t step) const;
  [[nodiscard]] std::uint64_t samples_digest(std::int64_t step) const;

 private:
  // Start of a run of steps of one size.
  struct Start {
    std::int64_t first_step = 0, size = 0, epoch = 0, position = 0;
  };
  struct Place {
    std::int64_t epoch = 0, position = 0;
  };
  [[nodiscard]] std::int64_t steps_from(std::int64_t position, std::int64_t size) const;
  [[nodiscard]] Place place(std::int64_t step) const;

  SamplerOptions options_;
  BatchRamp ramp_;
  std::vector<Start> starts_;
  std::shared_ptr<const MixtureOrder> mixture_;  // if there is one
  std::int64_t steps_per_epoch_;
};

// A keyed bijection of [0, size) without a table.
// A Feistel network over the smallest power of two that holds `size`, with cycle walking: outputs
// outside [0, size) are encrypted again until they fall inside (Black and Rogaway, "Ciphers with
// arbitrary finite domains", CT-RSA 2002). The round function is Philox keyed by (seed, shuffle) at
// counter (epoch, round, half), so each position is computed alone, in constant expected time
// (under two walks).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  // `index` must be below size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  int low_bits_;
  int high_bits_;
};

// The sample at `position` of an epoch of `samples` whose blocks of `block` stay together: blocks
// (of which the last may be shorter) in a random order, and the samples of every 16 successive ones
// in a random order.
[[nodiscard]] std::uint64_t block_order(std::uint64_t samples, std::uint64_t block,
                                        std::uint64_t seed, std::uint64_t epoch,
                                        std::uint64_t position);

}  // namespace trireme
