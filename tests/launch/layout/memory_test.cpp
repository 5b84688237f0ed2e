// SPDX-License-Identifier: Apache-2.0
// The memory that runs log at their start, against the formulas of their layouts.
#include <cstdio>
#include <cstdlib>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class LayoutMemory : public LayoutTest {
 protected:
  LayoutMemory() { ::setenv("TRIREME_LOG", "debug", 1); }

  // In MiB, for the fullest rank.
  struct Memory {
    double parameters = 0, gradients = 0, optimizer = 0, activations = 0;
  };
  static constexpr int hidden = 64, layers = 8;
  static constexpr double mib = 1 << 20;
  // 12 h^2 in matrices, 13 h in biases and norms: the widest layer, and all of them with embedding
  // and the last norm.
  static constexpr double block = 4 * (12 * hidden * hidden + 13 * hidden) / mib;
  static constexpr double whole = layers * block + 4 * (256 + 24 + 2) * hidden / mib;

  Memory memory(int ranks, const std::string& text, const std::string& precision = "fp32") {
    const Run run{.config = "gpt.yaml",
                  .set = {"model.hidden=64", "model.layers=8", "model.heads=4", "train.steps=1",
                          "lr_schedule.warmup_steps=0", "train.global_batch=32",
                          "parallel.bucket_megabytes=0.1", "precision=" + precision},
                  .steps = 1};
    const CommandResult result = train_layout(run, {ranks, text, precision});
    const auto at = result.output.find("buffers per rank at most: ");
    Memory found;
    EXPECT_TRUE(at != std::string::npos &&
                std::sscanf(result.output.c_str() + at,
                            "buffers per rank at most: parameters %lf MiB, gradients %lf MiB, "
                            "optimizer %lf MiB, activations %lf MiB",
                            &found.parameters, &found.gradients, &found.optimizer,
                            &found.activations) == 4)
        << result.output;
    return found;
  }
};

TEST_F(LayoutMemory, EveryZeroStageSharesOutOneMorePart) {
  const Memory none = memory(4, "data=4 zero=0"), state = memory(4, "data=4 zero=1"),
               rounded = memory(4, "data=4 zero=1", "bf16"), gradients = memory(4, "data=4 zero=2"),
               all = memory(4, "data=4 zero=3");

  const double rounding = 0.02 * whole + 0.01;
  EXPECT_NEAR(none.parameters, whole, rounding);
  EXPECT_NEAR(none.gradients, whole, rounding);
  EXPECT_NEAR(none.optimizer, 2 * whole, 2 * rounding);
  EXPECT_NEAR(state.parameters, whole, rounding);
  EXPECT_NEAR(state.gradients, whole, rounding);
  EXPECT_NEAR(state.optimizer, 2 * whole / 4, rounding);
  // Slices of matrices, all that is no matrix, and copies of both in 16 bits.
  EXPECT_NEAR(rounded.parameters, whole / 4 + whole / 2, 0.03 * whole + 0.01);
  // Slices of the sum and of the newest micro-batch, and whole gradients of two layers at a time;
  // whole parameters of three.
  EXPECT_LT(gradients.gradients, state.gradients);
  EXPECT_NEAR(gradients.gradients, 2 * whole / 4 + 2 * block, rounding);
  EXPECT_NEAR(all.gradients, gradients.gradients, rounding);
  EXPECT_NEAR(all.parameters, whole / 4 + 3 * block, rounding);
  EXPECT_NEAR(all.optimizer, 2 * whole / 4, rounding);
}

TEST_F(LayoutMemory, StagesAndTensorRanksShareOutEverything) {
  const Memory one = memory(1, ""), two = memory(2, "pipeline=2"), four = memory(4, "pipeline=4"),
               tensor = memory(4, "tensor=4");

  EXPECT_NEAR(one.parameters, whole, 0.02 * whole + 0.01);
  // The tied embedding is on both end stages; stages are cut at layers.
  EXPECT_LT(two.parameters, 0.7 * one.parameters);
  EXPECT_LT(four.parameters, 0.45 * one.parameters);
  EXPECT_LT(four.optimizer, 0.45 * one.optimizer);
  EXPECT_GT(four.parameters, one.parameters / 4);
  // Norms, positions and the biases behind sums are everywhere.
  EXPECT_LT(tensor.parameters, 0.35 * one.parameters);
  EXPECT_GT(tensor.parameters, 0.25 * one.parameters);
}

TEST_F(LayoutMemory, SchedulesAndRecomputationHoldAsManyActivationsAsPredicted) {
  const Memory gpipe = memory(2, "pipeline=2 schedule=gpipe"),
               one_f_one_b = memory(2, "pipeline=2 schedule=1f1b"),
               selective = memory(2, "pipeline=2 schedule=1f1b recompute=selective"),
               full = memory(2, "pipeline=2 schedule=1f1b recompute=full");

  // 16 micro-batches in flight against 2.
  EXPECT_GT(gpipe.activations, 5 * one_f_one_b.activations);
  EXPECT_LT(selective.activations, one_f_one_b.activations);
  EXPECT_LT(full.activations, 0.6 * one_f_one_b.activations);
}

}  // namespace
}  // namespace trireme::test
