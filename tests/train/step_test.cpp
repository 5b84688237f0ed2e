// SPDX-License-Identifier: Apache-2.0
// The training step from inside: nothing allocated once it is warm, and what it reports.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <random>

#include "models/gpt/gpt.h"
#include "models/resnet/resnet.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/step_engine.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace {

std::atomic<std::int64_t> news{0};

}  // namespace

// The linker sends every operator new of our own objects here (--wrap); what oneDNN and MPI
// allocate inside themselves is theirs.
extern "C" {
void* __real__Znwm(std::size_t size);
void* __wrap__Znwm(std::size_t size) {
  ++news;
  return __real__Znwm(size);
}
}

namespace trireme {
namespace {

// The same batch again and again.
class FixedSource final : public BatchSource {
 public:
  explicit FixedSource(const Batch& batch) : batch_(batch) {}
  const Batch& next(Stream&, Stream&) override { return batch_; }
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  Batch batch_;
};

template <typename T>
std::vector<T> random_values(std::size_t count, unsigned limit, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> values(count);
  for (auto& value : values)
    value = static_cast<T>(engine() % limit);
  return values;
}

class StepTest : public test::MpiTest {
 protected:
  StepTest() : streams_(device()) {}

  StepOptions options(int local_micro_batches) {
    StepOptions options;
    options.local_micro_batches = local_micro_batches;
    options.global_micro_batches = local_micro_batches * size();
    options.bucket_bytes = 4096;
    options.clip_norm = 1;
    options.optimizer = ops::AdamWOptions{};
    options.schedule = {.peak = 1e-2};
    return options;
  }
  // Losses of `steps` steps; afterwards, what the last of them allocated.
  std::vector<double> run(Model& model, const Batch& batch, int steps) {
    FixedSource source(batch);
    StepEngine engine(device(), model, world(), streams_, options(2));
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      const std::int64_t news_before = news;
      const auto buffers_before = device().memory_use(MemoryKind::device).allocations;
      engine.run(step, source);
      const StepReport report = engine.read(step);
      buffers_in_last_step_ = device().memory_use(MemoryKind::device).allocations - buffers_before;
      news_in_last_step_ = news - news_before;
      losses.push_back(report.loss);
      EXPECT_GT(report.step_ms, 0);
      EXPECT_GE(report.step_ms, report.forward_ms);
    }
    return losses;
  }

  Streams streams_;
  std::uint64_t buffers_in_last_step_ = 0;
  std::int64_t news_in_last_step_ = 0;
};

TEST_F(StepTest, AGptStepAllocatesNothingOnceItIsWarmAndLearns) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Model model(device(), dtype, 2, true, [](Blueprint& blueprint) {
      return declare_gpt(blueprint, {.layers = 2,
                                     .hidden = 32,
                                     .heads = 2,
                                     .context = 16,
                                     .vocabulary = 50,
                                     .dropout = 0.1F});
    });
    model.params().initialize(*streams_.compute, 1);
    const test::Owned<std::int32_t> inputs(device(), {2, 16},
                                           random_values<std::int32_t>(32, 50, 1));
    const test::Owned<std::int32_t> targets(device(), {2, 16},
                                            random_values<std::int32_t>(32, 50, 2));
    const test::Owned<std::int64_t> ids(device(), {2}, {1, 2});
    const Batch batch{inputs.tensor(), targets.tensor(), ids.tensor(), {}};

    const auto losses = run(model, batch, 12);

    EXPECT_EQ(buffers_in_last_step_, 0U) << name_of(dtype);
    EXPECT_EQ(news_in_last_step_, 0) << name_of(dtype);
    EXPECT_LT(losses.back(), 0.8 * losses.front());
  }
}

TEST_F(StepTest, AResNetStepAllocatesNothingOnceItIsWarmAndItsStatisticsFollowTheData) {
  Model model(device(), DType::f32, 4, true, [](Blueprint& blueprint) {
    return declare_resnet(blueprint, {.small_stem = true,
                                      .stages = {1, 1},
                                      .width = 8,
                                      .image_size = 10,
                                      .channels = 1,
                                      .classes = 3,
                                      .augment = {.mean = {0.5F}, .deviation = {0.3F}}});
  });
  model.params().initialize(*streams_.compute, 1);
  const test::Owned<std::uint8_t> images(device(), {4, 10, 10, 1},
                                         random_values<std::uint8_t>(400, 256, 3));
  const test::Owned<std::int32_t> labels(device(), {4}, {0, 1, 2, 0});
  const test::Owned<std::int64_t> ids(device(), {4}, {1, 2, 3, 4}),
      epochs(device(), {4}, {0, 0, 0, 0});
  const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};

  const auto losses = run(model, batch, 60);

  EXPECT_EQ(buffers_in_last_step_, 0U);
  EXPECT_EQ(news_in_last_step_, 0);
  EXPECT_LT(losses.back(), losses.front());
  // After 60 steps the running statistics are near those of the batch: evaluation agrees with
  // training.
  FixedSource source(batch);
  const EvaluationResult result = evaluate(device(), model, world(), streams_, source,
                                           {.local_batches = 1, .targets = 4L * size()});
  EXPECT_NEAR(result.loss, losses.back(), 0.5);
}

TEST_F(StepTest, MicroBatchesAddUpToTheWholeBatch) {
  // Two micro-batches of the same samples have the loss and the gradient norm of one.
  Model model(device(), DType::f32, 2, true, [](Blueprint& blueprint) {
    return declare_gpt(blueprint,
                       {.layers = 1, .hidden = 16, .heads = 2, .context = 8, .vocabulary = 20});
  });
  const test::Owned<std::int32_t> inputs(device(), {2, 8}, random_values<std::int32_t>(16, 20, 1));
  const test::Owned<std::int32_t> targets(device(), {2, 8}, random_values<std::int32_t>(16, 20, 2));
  const Batch batch{inputs.tensor(), targets.tensor(), {}, {}};
  FixedSource source(batch);
  std::vector<StepReport> reports;
  for (const int micro_batches : {1, 2, 5}) {
    model.params().initialize(*streams_.compute, 1);
    StepEngine engine(device(), model, world(), streams_, options(micro_batches));
    engine.run(0, source);
    reports.push_back(engine.read(0));
  }

  for (const StepReport& report : reports) {
    EXPECT_NEAR(report.loss, reports[0].loss, 1e-6);
    EXPECT_NEAR(report.grad_norm, reports[0].grad_norm, 1e-5);
  }
}

}  // namespace
}  // namespace trireme
