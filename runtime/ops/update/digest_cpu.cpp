// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/update/digest.h"
#include "runtime/ops/update/digest_math.h"

namespace trireme::ops::cpu {

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x) {
  enqueue(stream, [to = digest.as<std::uint64_t>(), x = x.as<float>(), n = x.count()] {
    std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i)
      sum += digest_term(i, std::bit_cast<std::uint32_t>(x[i]));
    *to += sum;
  });
}

}  // namespace trireme::ops::cpu
