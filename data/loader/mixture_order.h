// SPDX-License-Identifier: Apache-2.0
// Which sample of which source stands where in a mixture: a pure function of (seed, step, slot).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/loader/sample_id.h"

namespace trireme {

struct MixtureSource {
  std::string name{};            // for messages
  std::int64_t samples = 0;      // N
  double weight = 0;             // 0: as many as it has samples
  std::int64_t most_epochs = 0;  // left out of the mixture after so many passes; 0: never
  std::int64_t first_step = 0;   // in the mixture from here on
  std::int64_t end_step = 0;     // and before here; 0: to the end
};

struct MixtureOptions {
  std::vector<MixtureSource> sources{};
  double temperature = 1;  // shares are proportional to weight^(1 / temperature)
  std::int64_t global_batch = 0;
  std::int64_t steps = 0;  // of the whole run
  std::uint64_t seed = 0;
  bool shuffle = true;  // within each source
};

// The run falls into phases, each with the sources that are in the mixture then. Positions of a
// phase (its samples, counted over steps) fall into blocks of 2^16. Within a block, position o has
// the key reverse(o) ^ scramble(block), its 16 bits in reverse order, and the keys of a source are
// an interval as long as its share. So every run of positions, and so every batch, holds nearly the
// share of each source, and how many samples of a source came before a position is a sum of 16
// terms. The n-th sample of a source is position n mod N of its epoch n / N.
class MixtureOrder {
 public:
  // Raises ExitCode::config when no source is in the mixture at some step, or the share of one is
  // too small for a block.
  explicit MixtureOrder(const MixtureOptions& options);

  // Samples are counted over all sources, one behind the other.
  [[nodiscard]] SampleId at(std::int64_t step, std::int64_t slot) const;
  [[nodiscard]] std::int64_t global_batch() const { return options_.global_batch; }
  // Of as many samples as all sources have.
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  // How many samples of each source the steps before `step` hold.
  [[nodiscard]] std::vector<std::int64_t> drawn(std::int64_t step) const;

 private:
  struct Phase {
    std::int64_t first_step = 0;
    std::vector<std::uint64_t> shares;  // cumulative, in 2^-32; one more than sources
    std::vector<std::int64_t> drawn;    // of each source before the phase
  };

  [[nodiscard]] std::vector<bool> sources_at(std::int64_t step,
                                             std::span<const std::int64_t> drawn) const;
  [[nodiscard]] Phase make_phase(std::int64_t step, const std::vector<bool>& in,
                                 std::vector<std::int64_t> drawn) const;
  // The step at which something changes: a source comes, goes, or has had its epochs.
  [[nodiscard]] std::int64_t end_of(const Phase& phase, const std::vector<bool>& in) const;
  [[nodiscard]] std::int64_t drawn_before(const Phase& phase, std::size_t source,
                                          std::int64_t position) const;
  [[nodiscard]] std::uint64_t scramble(const Phase& phase, std::uint64_t block) const;

  MixtureOptions options_;
  std::vector<std::int64_t> starts_;  // of the sources' samples; one more than sources
  std::vector<Phase> phases_;
};

}  // namespace trireme
