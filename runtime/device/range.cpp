// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/range.h"

#include "runtime/device/backends.h"

namespace trireme {

Range::Range(const char* name) noexcept {
  begin_cuda_range(name);
}

Range::~Range() {
  end_cuda_range();
}

}  // namespace trireme
