// SPDX-License-Identifier: Apache-2.0
// Private: the offset of RMS norm scales. No offset is a separate type: adding 0 would change no
// value, but which products the compiler fuses.
#pragma once

namespace trireme::ops::cpu {

struct NoOffset {};

inline float scaled(float gamma, NoOffset /*offset*/) {
  return gamma;
}
inline float scaled(float gamma, float offset) {
  return gamma + offset;
}

// Calls action(NoOffset{}) or action(offset).
template <typename Action>
void visit_offset(float offset, Action&& action) {
  offset == 0 ? action(NoOffset{}) : action(offset);
}

}  // namespace trireme::ops::cpu
