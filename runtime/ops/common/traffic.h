// SPDX-License-Identifier: Apache-2.0
// Private: how an op declares what its kernels on a GPU move (device/work_log.h), one expression
// beside its operands in TRIREME_DISPATCH:
//   reads(x, gamma, beta).writes(y, mean, rstd)
// Each pass of a kernel over an operand counts: one that two kernels read is named twice. Absent
// operands count nothing. tests/emulation/traffic_test.cpp holds every declaration against the
// loads and stores of the kernels.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/base/shape.h"
#include "runtime/device/work_log.h"

namespace trireme::ops {

class Passes {
 public:
  template <typename... Tensors>
  Passes&& reads(const Tensors&... tensors) && {
    ((total_.read += bytes_of(tensors)), ...);
    return std::move(*this);
  }
  template <typename... Tensors>
  Passes&& writes(const Tensors&... tensors) && {
    ((total_.written += bytes_of(tensors)), ...);
    return std::move(*this);
  }
  // Read, changed and written.
  template <typename... Tensors>
  Passes&& updates(const Tensors&... tensors) && {
    return std::move(*this).reads(tensors...).writes(tensors...);
  }
  // Written, and read before where `adds`.
  Passes&& writes_or_adds(bool adds, const Tensor& tensor) && {
    if (adds) total_.read += bytes_of(tensor);
    return std::move(*this).writes(tensor);
  }
  // Where `condition` holds.
  template <typename... Tensors>
  Passes&& reads_if(bool condition, const Tensors&... tensors) && {
    if (condition) ((total_.read += bytes_of(tensors)), ...);
    return std::move(*this);
  }
  template <typename... Tensors>
  Passes&& writes_if(bool condition, const Tensors&... tensors) && {
    if (condition) ((total_.written += bytes_of(tensors)), ...);
    return std::move(*this);
  }
  // Parts of tensors, and memory beside the operands.
  Passes&& bytes(double read, double written) && {
    total_.read += read;
    total_.written += written;
    return std::move(*this);
  }
  Passes&& multiplies(std::int64_t m, std::int64_t n, std::int64_t k) && {
    total_.flops += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    total_.smallest = static_cast<double>(std::min({m, n, k}));
    return std::move(*this);
  }
  // In so many kernels where one does not do it all; tests/launch/emulated/kernel_counts_test.cpp
  // holds the numbers against what is launched.
  Passes&& kernels(int count) && {
    total_.kernels = count;
    return std::move(*this);
  }
  // `smallest`: of attention the size of a head.
  Passes&& flops(double flops, std::int64_t smallest = 0) && {
    total_.flops += flops;
    total_.smallest = static_cast<double>(smallest);
    return std::move(*this);
  }
  [[nodiscard]] const Traffic& total() const { return total_; }

 private:
  static double bytes_of(const Tensor& tensor) {
    return tensor.empty() ? 0 : static_cast<double>(tensor.bytes());
  }
  Traffic total_;
};

template <typename... Tensors>
[[nodiscard]] Passes reads(const Tensors&... tensors) {
  return Passes().reads(tensors...);
}
template <typename... Tensors>
[[nodiscard]] Passes writes(const Tensors&... tensors) {
  return Passes().writes(tensors...);
}
template <typename... Tensors>
[[nodiscard]] Passes updates(const Tensors&... tensors) {
  return Passes().updates(tensors...);
}

}  // namespace trireme::ops
