// SPDX-License-Identifier: Apache-2.0
// Named ranges of the host's work: phases of a step, layers. On a profiler's timeline Nsight shows
// the kernels that were enqueued meanwhile under them; in a traced step (trace/trace_log.h) each is
// a span of the compute stream. Otherwise nothing.
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
