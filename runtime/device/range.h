// SPDX-License-Identifier: Apache-2.0
// Named ranges of host work: phases of a step, layers. Nsight shows the kernels enqueued within
// them on its timeline; in a traced step (trace/trace_log.h) each is a span of the compute stream.
// Otherwise they do nothing.
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
