// SPDX-License-Identifier: Apache-2.0
// Named ranges of the host's work on a profiler's timeline: phases of a step, layers. Nsight shows
// the kernels that were enqueued meanwhile under them. Without the CUDA back end, nothing.
#pragma once

#include <string>

namespace trireme {

class Range {
 public:
  explicit Range(const char* name) noexcept;
  explicit Range(const std::string& name) noexcept : Range(name.c_str()) {}
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace trireme
