// SPDX-License-Identifier: Apache-2.0
// Runs on different layouts and what of them must not differ.
#pragma once

#include <map>

#include "tests/launch/run_fixture.h"

namespace trireme::test {

using Settings = std::vector<std::string>;

// A layout and what else differs from the run on one rank.
struct Layout {
  int ranks = 1;
  std::string text;    // "data=2 tensor=2 recompute=full device.graphs=step"
  std::string note{};  // tells runs of the same layout apart
};

class LayoutTest : public RunTest {
 protected:
  enum class Family : std::uint8_t { gpt, resnet };
  struct Run {
    Family family = Family::gpt;
    Settings set{};  // on every layout
    int steps = 0;   // what the transcripts must have
  };

  // What must be equal bit for bit, as text: loss and gradient norm of every step, validation loss
  // and accuracy, digests of the weights and of the optimizer's state. Numbers are printed so that
  // they round-trip, so equal text means equal bits. Fails the test when the run does.
  [[nodiscard]] std::string transcript(const Run& run, const Layout& layout);
  // Trains on one rank and on each of these.
  void expect_same_bits(const Run& run, const std::vector<Layout>& layouts);
  // Each step's loss within `relative` of the run on one rank.
  void expect_same_losses(const Run& run, const std::vector<Layout>& layouts, double relative);

  // Name of the run's directory.
  [[nodiscard]] static std::string name_of(const Layout& layout);
  // "data=2 recompute=full device.graphs=step" as settings.
  [[nodiscard]] static Settings settings_of(const std::string& text);
  CommandResult train_layout(const Run& run, const Layout& layout);
};

}  // namespace trireme::test
