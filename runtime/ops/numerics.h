// SPDX-License-Identifier: Apache-2.0
// What a back end may trade for speed. One setting a process, made before the first op.
#pragma once

namespace trireme::ops {

struct Numerics {
  bool tf32 = false;         // f32 products may round their operands to 10 bits of mantissa
  bool reproducible = true;  // same operands, same bits, run after run
};

void set_numerics(const Numerics& numerics);
[[nodiscard]] const Numerics& numerics();

}  // namespace trireme::ops
