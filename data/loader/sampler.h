// SPDX-License-Identifier: Apache-2.0
// Which sample stands where: a pure function of (seed, step, slot), the same on every rank and
// layout.
#pragma once

#include <cstdint>
#include <memory>

#include "data/loader/mixture_order.h"
#include "data/loader/sample_id.h"
#include "runtime/config/choices.h"

namespace trireme {

struct SamplerOptions {
  std::int64_t samples = 0;       // N
  std::int64_t global_batch = 0;  // G
  std::uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last_batch = LastBatch::drop;
};

class Sampler {
 public:
  // Raises ExitCode::data when there are fewer samples than one global batch, unless padding.
  explicit Sampler(const SamplerOptions& options);
  // Of several sources.
  explicit Sampler(std::shared_ptr<const MixtureOrder> mixture);

  // drop: N / G rounded down; pad: rounded up. Of a mixture: its sources' samples together.
  [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  [[nodiscard]] std::int64_t global_batch() const { return options_.global_batch; }
  // The sample at `slot` in [0, G) of the global batch of `step` (from 0). Position
  // i = (step mod steps_per_epoch) * G + slot of epoch step / steps_per_epoch holds
  // permutation(seed, epoch)(i mod N); of a mixture: see there.
  [[nodiscard]] SampleId at(std::int64_t step, std::int64_t slot) const;

 private:
  SamplerOptions options_;
  std::shared_ptr<const MixtureOrder> mixture_;  // where there is one
  std::int64_t steps_per_epoch_;
};

}  // namespace trireme
