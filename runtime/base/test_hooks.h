// SPDX-License-Identifier: Apache-2.0
// Hooks that a test program changes. The product links test_hooks.cpp, which does nothing; a test
// program links its own definitions (tests/launch/fixture) instead.
#pragma once

#include <cstdint>

namespace trireme {

// Where a test delays a rank, to check that reports show it.
enum class DelayPlace : std::uint8_t {
  read,       // a reader of the loader, before each sample
  batch,      // the loader, before it returns a micro-batch
  checkpoint  // the training thread, before a save
};

// Returns the delay in milliseconds: 0.
double test_delay(DelayPlace place);

// Step `step`, counted from 0, begins.
void test_step_begins(std::int64_t step);
// Whether step `step` runs without reports, to measure their cost: false. Equal on all ranks.
bool test_rests(std::int64_t step);

}  // namespace trireme
