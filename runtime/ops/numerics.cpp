// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/numerics.h"

namespace trireme::ops {
namespace {

Numerics current;

}  // namespace

void set_numerics(const Numerics& numerics) {
  current = numerics;
}

const Numerics& numerics() {
  return current;
}

}  // namespace trireme::ops
