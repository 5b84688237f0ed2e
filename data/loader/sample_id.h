// SPDX-License-Identifier: Apache-2.0
// A sample with its epoch.
#pragma once

#include <cstdint>

namespace trireme {

struct SampleId {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // -1: a padding row
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

}  // namespace trireme
