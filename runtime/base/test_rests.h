// SPDX-License-Identifier: Apache-2.0
// Where a test can have all that a run reports of itself rest in some of its steps, so that one
// process tells what it costs. The program has the empty functions of test_rests.cpp; a test's
// program brings its own (tests/launch/fixture/test_rests.cpp), which the linker takes instead.
#pragma once

#include <cstdint>

namespace trireme {

// The loop begins step `step`, counted from 0.
void test_step_begins(std::int64_t step);
// Whether nothing is to be reported while step `step` is run: false. Equal on all ranks.
bool test_rests(std::int64_t step);

}  // namespace trireme
