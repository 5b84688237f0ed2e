// SPDX-License-Identifier: Apache-2.0
// Shapes and texts that the tests of schedules share.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "runtime/parallel/schedule.h"

namespace trireme {

// How GoogleTest prints a shape.
inline void PrintTo(const ScheduleShape& shape, std::ostream* out) {
  *out << name_of(shape.kind) << ", " << shape.stages << " stages, " << shape.micro_batches
       << " micro-batches, " << shape.chunks << " chunks";
}

namespace test {

inline constexpr std::array all_schedules{ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                          ScheduleKind::interleaved, ScheduleKind::zero_bubble};

// Every supported shape up to these sizes.
inline std::vector<ScheduleShape> supported_shapes(int stages, int micro_batches, int chunks) {
  std::vector<ScheduleShape> shapes;
  for (const ScheduleKind kind : all_schedules) {
    for (int s = 1; s <= stages; ++s) {
      for (int m = 1; m <= micro_batches; ++m) {
        for (int c = 1; c <= chunks; ++c) {
          const ScheduleShape shape{kind, s, m, c};
          if (!unsupported(shape)) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

// "RF0 F0 B0 SB0"
inline std::string text_of_list(const ScheduleShape& shape, const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += (text.empty() ? "" : " ") + text_of(action, shape.chunks);
  return text;
}

}  // namespace test
}  // namespace trireme
