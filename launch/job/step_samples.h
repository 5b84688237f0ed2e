// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader/sampler.h"

namespace trireme {

// The samples of a step (from 0), in the order of its global batch, and their digest, which the
// run's certificate has.
[[nodiscard]] std::vector<std::int64_t> samples_of(const Sampler& sampler, std::int64_t step);
[[nodiscard]] std::uint64_t samples_digest(const Sampler& sampler, std::int64_t step);

}  // namespace trireme
