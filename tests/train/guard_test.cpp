// SPDX-License-Identifier: Apache-2.0
// Engine::run() with faults: batches that spoil the loss, signals that reach only one rank, on
// every layout.
#include <gmock/gmock.h>

#include <csignal>
#include <limits>
#include <set>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "runtime/base/error.h"
#include "runtime/train/signal_requests.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"
#include "tests/train/send_signal.h"

namespace trireme {
namespace {

// Before MPI starts threads, as in a run.
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
  TrainConfig train{};
  std::int64_t save_every = 0;
  std::int64_t odd_step = -1;
};

TrainConfig train_config(std::int64_t steps) {
  TrainConfig train;
  train.steps = steps;
  train.micro_batch = rows;
  train.global_batch = rows * micro_batches;
  train.divergence_check_every = 0;
  return train;
}

Config config_of(const Case& what) {
  Config config;
  config.run.seed = 1;
  config.parallel.data = what.mesh.data;
  config.parallel.tensor = what.mesh.tensor;
  config.parallel.tensor_blocks = what.mesh.tensor;
  config.parallel.pipeline = what.mesh.pipeline;
  config.parallel.zero = what.zero;
  config.parallel.bucket_megabytes = 4.0 / 1024;  // 1,024 gradients
  config.train = what.train;
  config.checkpoint.every_steps = what.save_every;
  config.telemetry.health_minutes = 0;
  config.optimizer.learning_rate = 3e-3;
  config.lr_schedule.name = LrDecay::constant;
  return config;
}

RankResources resources_of(Device& device, Communicator& world, const MeshShape& shape) {
  auto own = world.split(0, world.rank(), "world");
  ProcessMesh mesh(*own, shape);
  return {{&device, [](Device*) {}}, std::move(own), nullptr, std::move(mesh)};
}

// A rank that trains, and the test's actions between its steps.
struct Training final : RunObserver {
  Training(Device& device, Communicator& world, const Case& what)
      : engine(resources_of(device, world, mesh_shape(config_of(what).parallel)), config_of(what),
               Purpose::train,
               {.model = OwnModel{gpt_chain(gpt),
                                  {InputKind::tokens,
                                   {TargetKind::tokens, {gpt.context}},
                                   gpt.context,
                                   "tokens"}},
                .batches = [&what](Device& device, const Config& config) {
                  const auto ranks = static_cast<int>(config.parallel.data);
                  return std::make_unique<Batches>(device, micro_batches / ranks, what.odd_step);
                }}) {}
  StopReason run() {
    const StopReason stopped = engine.run(*this);
    engine.training().state->engine.settle();
    return stopped;
  }
  void begin() override {
    calls.emplace_back("begin");
    if (at_begin) at_begin();
  }
  void read(const StepReport& report) override {
    calls.push_back(fmt::format("read {}", report.step + 1));
    losses.push_back(report.loss);
  }
  void after_step(std::int64_t done) override {
    calls.push_back(fmt::format("after {}", done));
    if (behind_step) behind_step(done);
  }
  void saving(std::int64_t done) override {
    calls.push_back(fmt::format("saving {}", done));
    saved.push_back(done);
    if (at_save) at_save(done);
  }
  void end(const TrainingEnd& ending) override {
    calls.emplace_back("end");
    EXPECT_EQ(ending.final_loss, losses.back());
  }
  [[nodiscard]] Tensor masters() { return engine.session().model->params().masters().whole(); }
  // On one rank; collective.
  void flip_a_bit(int rank) {
    engine.training().state->engine.settle();
    if (engine.session().world->rank() == rank)
      *reinterpret_cast<std::uint32_t*>(masters().data) ^= 1U << 22U;
  }

  Engine engine;
  std::function<void()> at_begin{};
  std::function<void(std::int64_t)> behind_step{}, at_save{};
  std::vector<std::string> calls;
  std::vector<double> losses;
  std::vector<std::int64_t> saved;
};

class GuardTest : public test::MpiTest {
 protected:
  // Data-parallel with every ZeRO stage, and whatever else the ranks allow.
  [[nodiscard]] std::vector<Case> layouts() const {
    std::vector<Case> cases;
    for (const MeshShape& mesh : test::meshes_of(size())) {
      if (mesh.tensor > 2) continue;
      for (const int zero : {0, 1, 2, 3})
        cases.push_back({.mesh = mesh, .zero = zero, .train = train_config(12)});
    }
    return cases;
  }
  static std::string name_of(const Case& layout) {
    return fmt::format("pipeline {} x data {} x tensor {}, ZeRO {}", layout.mesh.pipeline,
                       layout.mesh.data, layout.mesh.tensor, layout.zero);
  }
  std::vector<StepReport> run(const Case& what) {
    Training training(device(), world(), what);
    training.engine.begin();
    std::vector<StepReport> reports;
    while (training.engine.steps_done() < what.train.steps)
      reports.push_back(training.engine.step());
    training.engine.training().state->engine.settle();
    return reports;
  }

  void forget_signals() {
    signals_.reset();
    signals_ = std::make_unique<SignalRequests>();
  }

  // Recreated, so that a signal of an earlier round does not count.
  std::unique_ptr<SignalRequests> signals_ = std::make_unique<SignalRequests>();
};

TEST_F(GuardTest, ABatchThatSpoilsTheLossLeavesTheWeightsUnchanged) {
  constexpr int odd = 12, steps = 15;
  for (Case layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    layout.train.steps = steps;
    const auto expected = run(layout);
    layout.odd_step = odd;
    layout.train.spike_zscore = 1;
    layout.train.spike_window = 10;

    const auto reports = run(layout);

    for (int step = 0; step < odd; ++step) {
      EXPECT_EQ(reports[step].judgement.verdict, ops::LossVerdict::accepted) << step;
      EXPECT_EQ(reports[step].loss, expected[step].loss) << step;
    }
    EXPECT_EQ(reports[odd].judgement.verdict, ops::LossVerdict::spike);
    EXPECT_GT(reports[odd].judgement.zscore, 1);
    EXPECT_GT(reports[odd].grad_norm, 0);
    // The forward pass of the next step uses the weights from before the skipped one.
    EXPECT_EQ(reports[odd + 1].loss, expected[odd].loss);
    EXPECT_EQ(reports[odd + 1].judgement.verdict, ops::LossVerdict::accepted);
    EXPECT_EQ(reports.back().judgement.spikes, 1);
    EXPECT_LT(reports.back().loss, reports[odd + 1].loss) << "it goes on learning";
  }
}

TEST_F(GuardTest, ARunReadsAStepWhileTheNextOneComputesUnlessItSavesOrEndsThere) {
  for (Case layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    layout.train.steps = 3;
    const std::vector<StepReport> expected = run(layout);
    layout.save_every = 2;
    Training training(device(), world(), layout);

    EXPECT_EQ(training.run(), StopReason::none);

    EXPECT_THAT(training.calls,
                testing::ElementsAre("begin", "after 1", "read 1", "after 2", "read 2", "saving 2",
                                     "read 3", "after 3", "end"));
    for (std::size_t step = 0; step < expected.size(); ++step)
      EXPECT_EQ(training.losses.at(step), expected[step].loss) << "as step() computes it";
  }
}

// A signal to one rank only gives the same answer on all.
TEST_F(GuardTest, ASignalToOneRankMakesAllRanksSaveAfterTheSameStep) {
  for (const Case& layout : layouts()) {
    for (const int signalled : std::set<int>{0, size() - 1}) {
      SCOPED_TRACE(fmt::format("{}, signal to rank {}", name_of(layout), signalled));
      forget_signals();
      Training training(device(), world(), layout);
      training.behind_step = [&](std::int64_t done) {
        if (done == 3 && rank() == signalled) test::send_signal(SIGUSR1);
      };

      EXPECT_EQ(training.run(), StopReason::none);

      // Raised after step 3: step 4 carries it, and it is read while step 5 runs.
      EXPECT_THAT(training.saved, testing::ElementsAre(5));
      EXPECT_EQ(training.losses.size(), 12U);
    }
  }
}

TEST_F(GuardTest, TerminationStopsAllRanksAfterTheSameStepWithACheckpoint) {
  for (Case layout : layouts()) {
    SCOPED_TRACE(name_of(layout));
    forget_signals();
    layout.train.steps = 1000;
    layout.save_every = 2;
    Training training(device(), world(), layout);
    training.at_save = [&](std::int64_t done) {
      if (done == 4 && rank() == size() - 1) test::send_signal(SIGTERM);
    };

    EXPECT_EQ(training.run(), StopReason::terminated);

    EXPECT_THAT(training.saved, testing::ElementsAre(2, 4, 6));
    EXPECT_EQ(training.engine.steps_done(), 6);
    EXPECT_EQ(training.losses.size(), 6U) << "the last step is reported too";
  }
}

TEST_F(GuardTest, AStepThatIsNotFiniteIsSkippedAndTooManyEndTheRun) {
  for (const std::int64_t limit : {1, 3}) {
    Case what{.mesh = {.data = size()}, .train = train_config(10)};
    what.train.non_finite_limit = limit;
    Training training(device(), world(), what);
    std::vector<std::byte> before;
    // One weight is NaN, so every loss from here on is NaN.
    training.at_begin = [&] {
      ParamStore& params = training.engine.session().model->params();
      for (const ParamId id : params.layout().order())
        params.master(id).as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      const Tensor masters = training.masters();
      before.assign(masters.data, masters.data + masters.bytes());
    };

    test::expect_error(
        ExitCode::non_finite, [&] { static_cast<void>(training.run()); },
        fmt::format("step {}: the loss is nan", limit));
    training.engine.training().state->engine.settle();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), training.masters().data));
  }
}

TEST_F(GuardTest, ReplicasThatDriftApartEndTheRun) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Case what{.mesh = {.data = size()}, .train = train_config(20)};
  what.train.divergence_check_every = 4;
  Training training(device(), world(), what);
  training.behind_step = [&](std::int64_t done) {
    if (done == 5) training.flip_a_bit(size() - 1);
  };

  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(training.run()); }, "after step 8",
      fmt::format("[rank {}/", size() - 1));
  training.engine.training().state->engine.settle();
}

TEST_F(GuardTest, ReplicasThatStartApartEndTheRunInItsFirstStep) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Case what{.mesh = {.data = size()}, .train = train_config(20)};
  what.train.divergence_check_every = 1000;
  Training training(device(), world(), what);
  training.at_begin = [&] { training.flip_a_bit(1); };

  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(training.run()); },
      "replicas of the weights differ after step 0", fmt::format("[rank 1/{}", size()));
  training.engine.training().state->engine.settle();
}

TEST_F(GuardTest, ReplicasAreComparedAtTheEndOfAShortRun) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  Case what{.mesh = {.data = size()}, .train = train_config(5)};
  what.train.divergence_check_every = 1000;
  Training training(device(), world(), what);
  training.behind_step = [&](std::int64_t done) {
    if (done == 3) training.flip_a_bit(1);
  };

  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(training.run()); },
      "replicas of the weights differ after step 5");
  training.engine.training().state->engine.settle();
}

}  // namespace
}  // namespace trireme
