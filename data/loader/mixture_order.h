// SPDX-License-Identifier: Apache-2.0
// The sample at each position of a mixture: a pure function of (seed, step, slot).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// A sample with its epoch.
struct SampleId {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // -1: a padding row
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

struct MixtureSource {
  std::string name{};            // for messages
  std::int64_t samples = 0;      // N
  double weight = 0;             // 0: its number of samples
  std::int64_t most_epochs = 0;  // leaves the mixture after this number of passes; 0: never
  std::int64_t first_step = 0;   // joins the mixture at this step
  std::int64_t end_step = 0;     // and leaves before this one; 0: stays to the end
};

struct MixtureOptions {
  std::vector<MixtureSource> sources{};
  double temperature = 1;  // shares are proportional to weight^(1 / temperature)
  std::int64_t global_batch = 0;
  std::int64_t steps = 0;  // of the whole run
  std::uint64_t seed = 0;
  bool shuffle = true;  // within each source
};

// The run consists of phases with a fixed set of sources. The positions of a phase (its samples,
// counted over steps) form blocks of 2^16. Within a block, position o has the key reverse(o) ^
// scramble(block) (its 16 bits reversed), and each source owns an interval of keys as long as its
// share. So every run of positions, and every batch, holds nearly the share of each source, and the
// number of a source's samples before a position is a sum of 16 terms. The n-th sample of a source
// is position n mod N of its epoch n / N.
class MixtureOrder {
 public:
  // Raises ExitCode::config if some step has no source, or a source's share is too small for a
  // block.
  explicit MixtureOrder(const MixtureOptions& options);

  // Samples are numbered over all sources, in order.
  [[nodiscard]] SampleId at(std::int64_t step, std::int64_t slot) const;
  [[nodiscard]] std::int64_t global_batch() const { return options_.global_batch; }
  // For as many samples as all sources have.
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  // The number of samples of each source in the steps before `step`.
  [[nodiscard]] std::vector<std::int64_t> drawn(std::int64_t step) const;

 private:
  struct Phase {
    std::int64_t first_step = 0;
    std::vector<std::uint64_t> shares;  // cumulative, in 2^-32; one more than sources
    std::vector<std::int64_t> drawn;    // per source, before the phase
  };

  [[nodiscard]] std::vector<bool> sources_at(std::int64_t step,
                                             std::span<const std::int64_t> drawn) const;
  [[nodiscard]] Phase make_phase(std::int64_t step, const std::vector<bool>& in,
                                 std::vector<std::int64_t> drawn) const;
  // The step of the next change: a source joins, leaves, or ends its epochs.
  [[nodiscard]] std::int64_t end_of(const Phase& phase, const std::vector<bool>& in) const;
  [[nodiscard]] std::int64_t drawn_before(const Phase& phase, std::size_t source,
                                          std::int64_t position) const;
  [[nodiscard]] std::uint64_t scramble(const Phase& phase, std::uint64_t block) const;

  MixtureOptions options_;
  std::vector<std::int64_t> starts_;  // of the sources' samples; one more than sources
  std::vector<Phase> phases_;
};

}  // namespace trireme
