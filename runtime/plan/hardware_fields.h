// SPDX-License-Identifier: Apache-2.0
// The keys of a hardware file, one row each, for reading, limits and writing. Private to this
// module.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "runtime/plan/hardware.h"

namespace trireme::plan {

using HardwareSlot = std::variant<double*, int*, std::string*>;

struct HardwareField {
  std::string_view section;  // "" at the top level
  std::string_view key;
  HardwareSlot (*slot)(Hardware&);
  double low = 0, high = 0;  // of numbers; inclusive
  bool required = false;     // otherwise the default of the struct
};

[[nodiscard]] std::span<const HardwareField> hardware_fields();

}  // namespace trireme::plan
