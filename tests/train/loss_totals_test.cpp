// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/loss_totals.h"

#include <cmath>

#include "runtime/config/batch_slices.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

constexpr int micro_batches = 8;  // of the whole pass
constexpr std::int64_t targets = 5;

// Micro-batches 0 and 4 swallow whatever is added up between them, so sums hang on the order.
float loss_of(int k, std::int64_t i) {
  if (k % 4 == 0) return k == 0 ? 0x1p60F : -0x1p60F;
  return std::abs(test::sample_value("loss", i, static_cast<std::uint64_t>(k)));
}

class LossTotalsTest : public test::MpiTest {
 protected:
  // The head's result for micro-batch k.
  void add(LossTotals& totals, std::int64_t index, int k) {
    std::vector<float> losses, correct;
    std::vector<std::int32_t> labels(targets, 0);
    labels[static_cast<std::size_t>(k) % labels.size()] = ignored_target;
    for (std::int64_t i = 0; i < targets; ++i) {
      losses.push_back(loss_of(k, i));
      correct.push_back(static_cast<float>((k + i) % 2));
    }
    Batch batch;
    batch.targets = tensor_of(labels);
    const Context context{.stream = compute(),
                          .params = params_,
                          .kept = arena_,
                          .scratch = arena_,
                          .workspace = arena_,
                          .batch = batch,
                          .losses = tensor_of(losses),
                          .correct = tensor_of(correct)};
    totals.add(context, index);
  }
  // Each of the pass's micro_batches parts is a micro-batch, or one of `blocks` of them on each
  // rank that shares sequences.
  [[nodiscard]] LossTotals::Values run(const ProcessMesh& mesh, int turns, int blocks = 1) {
    const int sharing = mesh.shape().context, parts = sharing * blocks;
    const int ranks = mesh.shape().sample_ranks(), local = micro_batches / parts / ranks;
    const BatchSlices slices = BatchSlices::even(micro_batches / parts, ranks, turns);
    const int sample = sample_of(mesh.shape(), mesh.here());
    const int first = mesh.here().data % sharing * blocks;
    LossTotals totals(device(), mesh, local, turns, blocks);
    LossTotals::Values values;
    for (int pass = 0; pass < 2; ++pass) {  // the second must not see the first
      totals.reset(compute());
      const bool last_stage = mesh.here().pipeline + 1 == mesh.shape().pipeline;
      for (int row = 0; row < local * blocks && last_stage; ++row) {
        const auto whole = static_cast<int>(slices.number(sample, row / blocks, local));
        add(totals, row, whole * parts + first + row % blocks);
      }
      totals.publish(compute(), comm_stream());
      totals.wait();
      values = totals.read();
      const LossTotals::Values halves = totals.read(0, local * ranks / 2);
      EXPECT_EQ(halves.targets, values.targets / local / ranks * (local * ranks / 2));
    }
    return values;
  }
  [[nodiscard]] LossTotals::Values run_alone() {
    const auto single = make_single_communicator();
    return run(ProcessMesh(*single, {}), 1);
  }

 private:
  const ParamStore params_;
  const Arena arena_;
};

TEST_F(LossTotalsTest, HaveTheSameBitsHoweverManyRanksShareThePass) {
  const LossTotals::Values expected = run_alone();

  for (const MeshShape& shape : test::meshes_of(size())) {
    const ProcessMesh mesh(world(), shape);
    for (int turns = 1; turns <= shape.data; ++turns) {
      if (shape.data % turns != 0) continue;
      const LossTotals::Values values = run(mesh, turns);

      EXPECT_EQ(values.loss, expected.loss) << shape.data << " data ranks";
      EXPECT_EQ(values.correct, expected.correct) << shape.data << " data ranks";
      EXPECT_EQ(values.targets, expected.targets) << shape.data << " data ranks";
    }
  }
}

TEST_F(LossTotalsTest, HaveTheSameBitsHoweverManyRanksShareASequence) {
  const LossTotals::Values expected = run_alone();

  for (MeshShape shape : test::meshes_of(size())) {
    for (shape.context = 1; shape.context <= shape.data; ++shape.context) {
      if (shape.data % shape.context != 0) continue;
      const ProcessMesh mesh(world(), shape);
      const int samples = shape.sample_ranks();
      for (const int blocks : {1, 2}) {
        for (const int turns : {1, samples}) {
          if (samples * shape.context * blocks > micro_batches) continue;
          const LossTotals::Values values = run(mesh, turns, blocks);

          EXPECT_EQ(values.loss, expected.loss) << shape.context << " of " << shape.data;
          EXPECT_EQ(values.targets, expected.targets) << shape.context << " of " << shape.data;
        }
      }
    }
  }
}

TEST_F(LossTotalsTest, AreTheSumsOverAllTargets) {
  double loss = 0, correct = 0;
  for (int k = 0; k < micro_batches; ++k) {
    for (std::int64_t i = 0; i < targets; ++i) {
      loss += static_cast<double>(loss_of(k, i));
      correct += static_cast<double>((k + i) % 2);
    }
  }

  const LossTotals::Values values = run_alone();

  EXPECT_NEAR(values.loss, loss, 1e-12 * loss);
  EXPECT_EQ(values.correct, correct);
  EXPECT_EQ(values.targets, micro_batches * (targets - 1)) << "one of each is ignored";
}

}  // namespace
}  // namespace trireme
