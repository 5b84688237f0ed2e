// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the key table. Private to this module.
#pragma once

#include <vector>

#include "runtime/config/fields.h"

namespace trireme::config {

inline constexpr double any_size = 1e6;
inline constexpr std::int64_t many = 1'000'000'000'000;
inline constexpr double year_of_minutes = 525'600;
// [0, 1): shares and decay rates.
inline constexpr NumberRange below_one{.low = 0, .high = 1, .high_is_open = true};
inline constexpr Text texts{.items = {0, 1024}};
inline const Condition on_cuda{"device.type", {"cuda"}};

// data.*
[[nodiscard]] std::vector<Field> data_fields();
[[nodiscard]] std::vector<Field> mixture_fields();
// parallel.* and comm.*
[[nodiscard]] std::vector<Field> parallel_fields();
[[nodiscard]] std::vector<Field> message_fields();
[[nodiscard]] std::vector<Field> comm_fields();
// telemetry.*
[[nodiscard]] std::vector<Field> telemetry_fields();

}  // namespace trireme::config

// Spells the key by the member it sets, so the two cannot differ.
#define FIELD(path, ...)                                                     \
  Field {                                                                    \
#path, [](Config & config) -> Slot { return &config.path; }, __VA_ARGS__ \
  }
