// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/ops/experts/expert_rows.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

TRIREME_HOST_DEVICE void move_value(std::int64_t i, float* to, const float* from,
                                    const std::int32_t* places, bool spreads) {
  const std::int64_t place = places[i];
  to[spreads ? place : i] = from[spreads ? i : place];
}

}  // namespace

void spread_values(Stream& stream, const Tensor& values, const Tensor& x, const Tensor& places) {
  each<move_value>(stream, places.count(), values.as<float>(), x.as<float>(),
                   places.as<std::int32_t>(), true);
}

void collect_values(Stream& stream, const Tensor& x, const Tensor& values, const Tensor& places) {
  each<move_value>(stream, places.count(), x.as<float>(), values.as<float>(),
                   places.as<std::int32_t>(), false);
}

TRIREME_PROVIDES(spread_values, collect_values);

}  // namespace trireme::ops::TRIREME_BACK_END
