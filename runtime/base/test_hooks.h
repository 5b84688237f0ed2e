// SPDX-License-Identifier: Apache-2.0
// What a test's program changes in a run. The program has the functions of test_hooks.cpp, which do
// nothing; a test's program brings its own (tests/launch/fixture), which the linker takes instead.
#pragma once

#include <cstdint>

namespace trireme {

// Where a test has a rank stand still, to see whether what reports on runs finds it.
enum class DelayPlace : std::uint8_t {
  compute,    // the first forward pass of a step
  read,       // a reader of the loader, before each sample
  batch,      // the loader, before it hands out a micro-batch
  messages,   // the stream of messages, before what ends a step
  checkpoint  // the training thread, before a save
};

// Whether this program is a test's that delays anything.
bool test_delays();
// Returns how long it stood still, in milliseconds: 0.
double test_delay(DelayPlace place);

// The loop begins step `step`, counted from 0.
void test_step_begins(std::int64_t step);
// Whether nothing is to be reported while step `step` is run, so that one process tells what
// reports cost: false. Equal on all ranks.
bool test_rests(std::int64_t step);

}  // namespace trireme
