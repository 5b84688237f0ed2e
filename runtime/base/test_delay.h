// SPDX-License-Identifier: Apache-2.0
// Where a test can have a rank stand still, to see whether what reports on runs finds it. The
// program has the empty function below; a test's program brings its own
// (tests/launch/fixture/test_delays.cpp), which the linker takes instead.
#pragma once

#include <cstdint>

namespace trireme {

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

}  // namespace trireme
