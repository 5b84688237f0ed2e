// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/digest.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNEL(accumulate_digest);

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x) {
  const Operands check("accumulate_digest");
  check.reduction("digest", digest, DType::u64, x);
  TRIREME_DISPATCH(stream, accumulate_digest, reads(x).updates(digest), digest, x);
}

}  // namespace trireme::ops
