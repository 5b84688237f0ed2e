// SPDX-License-Identifier: Apache-2.0
// Private: how an op declares the memory traffic of its GPU kernels (device/work_log.h), in an
// expression beside its operands in TRIREME_DISPATCH:
//   reads(x, gamma, beta).writes(y, mean, rstd)
// Each pass of a kernel over an operand counts, so an operand read by two kernels is named twice.
// Absent operands count nothing. tests/emulation/traffic_test.cpp compares all declarations with
// the kernels' loads and stores.
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
  // Read, modified and written.
  template <typename... Tensors>
  Passes&& updates(const Tensors&... tensors) && {
    return std::move(*this).reads(tensors...).writes(tensors...);
  }
  // Written, and with `adds` read before.
  Passes&& writes_or_adds(bool adds, const Tensor& tensor) && {
    if (adds) total_.read += bytes_of(tensor);
    return std::move(*this).writes(tensor);
  }
  // If `condition` holds.
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
  // Parts of tensors, and memory other than operands.
  Passes&& bytes(double read, double written) && {
    total_.read += read;
    total_.written += written;
    return std::move(*this);
  }
  Passes&& multiplies(std::int64_t m, std::int64_t n, std::int64_t k,
                      WorkRate rate = WorkRate::matmul) && {
    total_.rate = rate;
    total_.flops += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    total_.smallest = static_cast<double>(std::min({m, n, k}));
    return std::move(*this);
  }
  // Of m rows in `groups`, each with a matrix of its own.
  Passes&& multiplies_groups(std::int64_t groups, std::int64_t m, std::int64_t n,
                             std::int64_t k) && {
    auto&& all = std::move(*this).multiplies(m, n, k);
    all.total_.smallest =
        std::min(all.total_.smallest,
                 static_cast<double>(m) / static_cast<double>(std::max<std::int64_t>(groups, 1)));
    return std::move(all);
  }
  // The number of kernels, if not one; tests/launch/emulated/kernel_counts_test.cpp compares it
  // with the launches.
  Passes&& kernels(int count) && {
    total_.kernels = count;
    return std::move(*this);
  }
  // `smallest`: for attention the head size.
  Passes&& flops(WorkRate rate, double flops, std::int64_t smallest = 0) && {
    total_.rate = rate;
    total_.flops += flops;
    total_.smallest = static_cast<double>(smallest);
    return std::move(*this);
  }
  // In a backward: what makes gradients of parameters, for which no earlier layer waits.
  Passes&& of_parameters() && {
    total_.of_parameters = true;
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
