// SPDX-License-Identifier: Apache-2.0
#include "launch/job/step_samples.h"

#include "runtime/base/checksum.h"

namespace trireme {

std::vector<std::int64_t> samples_of(const Sampler& sampler, std::int64_t step) {
  std::vector<std::int64_t> samples;
  for (std::int64_t slot = 0; slot < sampler.ramp().size_at(step); ++slot)
    samples.push_back(sampler.at(step, slot).sample);
  return samples;
}

std::uint64_t samples_digest(const Sampler& sampler, std::int64_t step) {
  const auto samples = samples_of(sampler, step);
  return checksum_of(
      {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(samples.front())});
}

}  // namespace trireme
