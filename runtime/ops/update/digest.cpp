// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/digest.h"

#include <bit>

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(accumulate_digest);

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x,
                       const DigestPlaces& places) {
  const Operands check("accumulate_digest");
  check.reduction("digest", digest, DType::u64, x);
  TRIREME_DISPATCH(stream, accumulate_digest, reads(x).updates(digest), digest, x, places);
}

std::uint64_t host_digest(std::span<const float> x, const DigestPlaces& places) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto place = static_cast<std::int64_t>(i);
    if (places.width > 0) {
      const std::int64_t at = places.first + place;
      place = at / places.width * places.stride + at % places.width;
    }
    sum += digest_term(places.base + static_cast<std::uint64_t>(place),
                       std::bit_cast<std::uint32_t>(x[i]));
  }
  return sum;
}

}  // namespace trireme::ops
