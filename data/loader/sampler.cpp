// SPDX-License-Identifier: Apache-2.0
#include "data/loader/sampler.h"

#include <utility>

#include "data/loader/permutation.h"
#include "runtime/base/error.h"

namespace trireme {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
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
  steps_per_epoch_ = pad ? (samples - 1) / batch + 1 : samples / batch;
}

Sampler::Sampler(std::shared_ptr<const MixtureOrder> mixture)
    : options_{.global_batch = mixture->global_batch()},
      mixture_(std::move(mixture)),
      steps_per_epoch_(mixture_->steps_per_epoch()) {}

SampleId Sampler::at(std::int64_t step, std::int64_t slot) const {
  if (mixture_) return mixture_->at(step, slot);
  TRIREME_EXPECTS(step >= 0 && slot >= 0 && slot < options_.global_batch, "slot {} of step {}",
                  slot, step);
  const std::int64_t epoch = step / steps_per_epoch_;
  const std::int64_t position =
      ((step % steps_per_epoch_) * options_.global_batch + slot) % options_.samples;
  if (!options_.shuffle) return {epoch, position};
  const Permutation order(static_cast<std::uint64_t>(options_.samples), options_.seed,
                          static_cast<std::uint64_t>(epoch));
  return {epoch, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(position)))};
}

}  // namespace trireme
