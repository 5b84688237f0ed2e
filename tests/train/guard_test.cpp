// SPDX-License-Identifier: Apache-2.0
// The loop under guard: batches that spoil the loss, signals that reach only one rank, on every
// layout of the ranks.
#include <gmock/gmock.h>

#include <csignal>
#include <limits>
#include <set>

#include "models/gpt/gpt.h"
#include "runtime/base/error.h"
#include "runtime/parallel/stage_plan.h"
#include "runtime/train/signal_requests.h"
#include "runtime/train/trainer.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"
#include "tests/train/send_signal.h"

namespace trireme {
namespace {

// Before MPI starts threads, as SignalRequests stands first in a run.
[[maybe_unused]] const int signals_blocked = [] {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGTERM);
  return pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}();

constexpr GptOptions gpt{.layers = 4, .hidden = 32, .heads = 2, .context = 16, .vocabulary = 50};
constexpr std::int64_t rows = 2, targets = rows * gpt.context;
constexpr int micro_batches = 4;

// The same batch at every step but one.
class Batches final : public BatchSource {
 public:
  Batches(Device& device, int per_step, std::int64_t odd_step)
      : usual_(device, 1), odd_(device, 17), per_step_(per_step), odd_step_(odd_step) {}
  const Batch& next(Stream&, Stream&) override {
    return next_++ / per_step_ == odd_step_ ? odd_.batch : usual_.batch;
  }
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  struct Data {
    Data(Device& device, std::int32_t factor)
        : inputs(device, {rows, gpt.context}, tokens(factor)),
          labels(device, {rows, gpt.context}, tokens(factor + 1)),
          ids(device, {rows}, {1, 2}),
          batch{inputs.tensor(), labels.tensor(), ids.tensor(), {}} {}
    static std::vector<std::int32_t> tokens(std::int32_t factor) {
      std::vector<std::int32_t> values(targets);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<std::int32_t>(i) * factor % 50;
      return values;
    }
    test::Owned<std::int32_t> inputs, labels;
    test::Owned<std::int64_t> ids;
    Batch batch;
  };
  Data usual_, odd_;
  std::int64_t per_step_, odd_step_, next_ = 0;
};

struct Case {
  MeshShape mesh{};
  int zero = 0;
  LossGuardOptions guard{};
  std::int64_t odd_step = -1;
  StepRequests* requests = nullptr;
};

// All that a rank needs to train.
struct Training {
  Training(Device& device, Communicator& world, Streams& streams, const Case& what)
      : mesh(world, what.mesh), tensor(device, mesh.tensor(), *streams.comm) {
    const BuildOptions build{.micro_batch = rows,
                             .training = true,
                             .tensor = {what.mesh.tensor, mesh.here().tensor, what.mesh.tensor}};
    StepOptions options{
        .pipeline = {.stages = what.mesh.pipeline, .micro_batches = micro_batches / what.mesh.data},
        .slices = BatchSlices::even(micro_batches, what.mesh.data),
        .targets_per_micro_batch = targets,
        .assignment = what.zero >= 2 ? Assignment::strided : Assignment::contiguous,
        .clip_norm = 1,
        .optimizer = {},
        .loss_guard = what.guard,
        .schedule = {.peak = 3e-3}};
    if (what.requests != nullptr) options.flags = [r = what.requests] { return r->flags(); };
    const Chain chain = gpt_chain(gpt);
    const auto layers = summarize(chain, device.type(), build);
    const StagePlan stages = plan_stages(layers, options.pipeline);
    const int here = mesh.here().pipeline;
    model = std::make_unique<Model>(
        device, chain, build, stages.chunks(options.pipeline, here, true),
        stages.inputs(options.pipeline, here, layers),
        StoreOptions{.gradient_levels = StepEngine::gradient_levels(options, what.zero),
                     .zero = {what.zero, what.mesh.data, mesh.here().data},
                     .bucket_elements = 1024},
        what.mesh.pipeline > 1 || what.zero >= 2);
    model->params().initialize(*streams.compute, 1);
    engine = std::make_unique<StepEngine>(device, *model, mesh, streams, &tensor, options);
    engine->gatherer().after_update();
    source = std::make_unique<Batches>(device, options.pipeline.micro_batches, what.odd_step);
  }
  ProcessMesh mesh;
  TensorGroup tensor;
  std::unique_ptr<Model> model;
  std::unique_ptr<StepEngine> engine;
  std::unique_ptr<Batches> source;
};

class GuardTest : public test::MpiTest {
 protected:
  GuardTest() : streams_(device()) {}

  // Data-parallel with every ZeRO stage, and whatever else the ranks allow.
  [[nodiscard]] std::vector<Case> layouts() const {
    std::vector<Case> cases;
    for (const MeshShape& mesh : test::meshes_of(size())) {
      if (mesh.tensor > 2) continue;
      for (const int zero : {0, 1, 2, 3})
        cases.push_back({.mesh = mesh, .zero = zero});
    }
    return cases;
  }
  static std::string name_of(const Case& layout) {
    return fmt::format("pipeline {} x data {} x tensor {}, ZeRO {}", layout.mesh.pipeline,
                       layout.mesh.data, layout.mesh.tensor, layout.zero);
  }
  std::vector<StepReport> run(const Case& what, int steps) {
    Training training(device(), world(), streams_, what);
    std::vector<StepReport> reports;
    for (int step = 0; step < steps; ++step) {
      training.engine->run(step, *training.source);
      reports.push_back(training.engine->read(step));
    }
    training.engine->settle();
    return reports;
  }

  void forget_signals() {
    signals_.reset();
    signals_ = std::make_unique<SignalRequests>();
  }

  Streams streams_;
  // Made anew where a signal of an earlier turn must not count.
  std::unique_ptr<SignalRequests> signals_ = std::make_unique<SignalRequests>();
};

TEST_F(GuardTest, ABatchThatSpoilsTheLossLeavesTheWeightsAsTheyWere) {
  constexpr int odd = 12, steps = 15;
  for (Case layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    const auto expected = run(layout, steps);
    layout.odd_step = odd;
    layout.guard = {.spike_zscore = 1, .spike_window = 10};

    const auto reports = run(layout, steps);

    for (int step = 0; step < odd; ++step) {
      EXPECT_EQ(reports[step].judgement.verdict, ops::LossVerdict::accepted) << step;
      EXPECT_EQ(reports[step].loss, expected[step].loss) << step;
    }
    EXPECT_EQ(reports[odd].judgement.verdict, ops::LossVerdict::spike);
    EXPECT_GT(reports[odd].judgement.zscore, 1);
    EXPECT_GT(reports[odd].grad_norm, 0);
    // The forward pass of the next step sees the weights from before the spoilt one.
    EXPECT_EQ(reports[odd + 1].loss, expected[odd].loss);
    EXPECT_EQ(reports[odd + 1].judgement.verdict, ops::LossVerdict::accepted);
    EXPECT_EQ(reports.back().judgement.spikes, 1);
    EXPECT_LT(reports.back().loss, reports[odd + 1].loss) << "it goes on learning";
  }
}

// Where `save` was called, and on which step each of these reached a rank: a signal to one rank
// only gives the same answer on all.
TEST_F(GuardTest, ASignalToOneRankMakesAllRanksSaveAfterTheSameStep) {
  constexpr std::int64_t steps = 12;
  for (Case layout : layouts()) {
    for (const int signalled : std::set<int>{0, size() - 1}) {
      SCOPED_TRACE(fmt::format("{}, signal to rank {}", name_of(layout), signalled));
      forget_signals();
      StepRequests requests({.leader = rank() == 0});
      layout.requests = &requests;
      Training training(device(), world(), streams_, layout);
      std::vector<std::int64_t> saved;
      Trainer trainer(*training.engine, *training.source, {.steps = steps, .eval_every = 3}, {},
                      {.evaluate =
                           [&] {
                             if (rank() == signalled && SignalRequests::checkpoints() == 0)
                               test::send_signal(SIGUSR1);
                             return EvaluationResult{};
                           },
                       .save = [&](std::int64_t done) { saved.push_back(done); },
                       .requests = &requests});

      trainer.run();
      training.engine->settle();

      // Raised after step 3: step 4 carries it, and it is read while step 5 runs.
      EXPECT_THAT(saved, testing::ElementsAre(5));
      EXPECT_EQ(trainer.stopped(), StopReason::none);
    }
  }
}

TEST_F(GuardTest, TerminationStopsAllRanksAfterTheSameStepWithACheckpoint) {
  for (Case layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    forget_signals();
    StepRequests requests({.leader = rank() == 0, .every_steps = 2});
    layout.requests = &requests;
    Training training(device(), world(), streams_, layout);
    std::vector<std::int64_t> saved;
    Trainer trainer(*training.engine, *training.source, {.steps = 1000}, {},
                    {.save =
                         [&](std::int64_t done) {
                           saved.push_back(done);
                           if (done == 4 && rank() == size() - 1) test::send_signal(SIGTERM);
                         },
                     .requests = &requests});

    trainer.run();
    training.engine->settle();

    EXPECT_THAT(saved, testing::ElementsAre(2, 4, 6));
    EXPECT_EQ(trainer.stopped(), StopReason::terminated);
    EXPECT_GT(trainer.final_loss(), 0) << "the last step is reported too";
  }
}

TEST_F(GuardTest, AStepThatIsNotFiniteIsSkippedAndTooManyEndTheRun) {
  for (const std::int64_t limit : {1, 3}) {
    Training training(device(), world(), streams_, {.mesh = {.data = size()}});
    // One weight is beyond repair: every loss from here on is NaN.
    for (const ParamId id : training.model->params().layout().order()) {
      training.model->params().master(id).as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    }
    const Tensor masters = training.model->params().masters().whole();
    const std::vector<std::byte> before(masters.data, masters.data + masters.bytes());
    Trainer trainer(*training.engine, *training.source, {.steps = 10, .non_finite_limit = limit},
                    {}, {});

    try {
      trainer.run();
      ADD_FAILURE() << "the run went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::non_finite);
      EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("step {}: the loss is nan", limit)));
    }
    training.engine->settle();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), masters.data));
  }
}

TEST_F(GuardTest, ReplicasThatDriftApartEndTheRun) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Training training(device(), world(), streams_, {.mesh = {.data = size()}});
  ReplicaCheck replicas(device(), training.model->params(), training.mesh, streams_);
  const auto flip = [&] {
    if (rank() != size() - 1) return EvaluationResult{};
    *reinterpret_cast<std::uint32_t*>(training.model->params().masters().whole().data) ^= 1U << 22U;
    return EvaluationResult{};
  };
  Trainer trainer(*training.engine, *training.source,
                  {.steps = 20, .eval_every = 5, .divergence_check_every = 4}, {},
                  {.evaluate = flip, .replicas = &replicas});

  try {
    trainer.run();
    ADD_FAILURE() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("after step 8"),
                               testing::HasSubstr(fmt::format("[rank {}/", size() - 1))));
  }
  training.engine->settle();
}

TEST_F(GuardTest, ReplicasThatStartApartEndTheRunInItsFirstStep) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Training training(device(), world(), streams_, {.mesh = {.data = size()}});
  ReplicaCheck replicas(device(), training.model->params(), training.mesh, streams_);
  if (rank() == 1)
    *reinterpret_cast<std::uint32_t*>(training.model->params().masters().whole().data) ^= 1U << 22U;
  Trainer trainer(*training.engine, *training.source, {.steps = 20, .divergence_check_every = 1000},
                  {}, {.replicas = &replicas});

  test::expect_error(
      ExitCode::communication, [&] { trainer.run(); },
      "replicas of the weights differ after step 0", fmt::format("[rank 1/{}", size()));
  training.engine->settle();
}

TEST_F(GuardTest, ReplicasAreComparedAtTheEndOfAShortRun) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Training training(device(), world(), streams_, {.mesh = {.data = size()}});
  ReplicaCheck replicas(device(), training.model->params(), training.mesh, streams_);
  int steps = 0;
  const auto flip = [&] {
    if (++steps == 3 && rank() == 1)
      *reinterpret_cast<std::uint32_t*>(training.model->params().masters().whole().data) ^= 1U
                                                                                            << 22U;
  };
  Trainer trainer(*training.engine, *training.source, {.steps = 5, .divergence_check_every = 1000},
                  {}, {.after_step = flip, .replicas = &replicas});

  test::expect_error(
      ExitCode::communication, [&] { trainer.run(); },
      "replicas of the weights differ after step 5");
  training.engine->settle();
}

}  // namespace
}  // namespace trireme
