// SPDX-License-Identifier: Apache-2.0
// The training step from inside: a warm step allocates nothing; its reports.
#include <atomic>
#include <cmath>
#include <map>
#include <random>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "models/llama/llama.h"
#include "models/resnet/resnet.h"
#include "runtime/base/philox.h"
#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"
#include "tests/train/fixed_source.h"

namespace {

std::atomic<std::int64_t> news{0};

}  // namespace

// The linker redirects every operator new of our objects here (--wrap); internal allocations of
// oneDNN and MPI do not count.
extern "C" {
void* __real__Znwm(std::size_t size);
void* __wrap__Znwm(std::size_t size) {
  ++news;
  return __real__Znwm(size);
}
}

namespace trireme {
namespace {

template <typename T>
std::vector<T> random_values(std::size_t count, unsigned limit, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> values(count);
  for (auto& value : values)
    value = static_cast<T>(engine() % limit);
  return values;
}

constexpr int global_micro_batches = 8;

// How a test cuts its training over the world.
struct Layout {
  MeshShape mesh{};
  int zero = 0;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  bool layout_independent = false;
  DType dtype = DType::f32;
  std::int64_t noise_every = 0;

  [[nodiscard]] std::string to_string() const {
    return fmt::format("pipeline {} x data {}, ZeRO {} in groups of {}, {}, {}, {}", mesh.pipeline,
                       mesh.data, zero, mesh.shard, name_of(schedule),
                       layout_independent ? "layout" : "fast", name_of(dtype));
  }
};

Config config_of(const Layout& layout, std::int64_t rows, int micro_batches) {
  Config config;
  config.run.seed = 1;
  config.precision = layout.dtype == DType::bf16 ? Precision::bf16 : Precision::fp32;
  config.reproducibility =
      layout.layout_independent ? Reproducibility::layout : Reproducibility::fast;
  config.parallel.data = layout.mesh.data;
  config.parallel.pipeline = layout.mesh.pipeline;
  config.parallel.zero = layout.zero;
  config.parallel.zero_group = layout.mesh.shard > 1 ? layout.mesh.shard : 0;
  config.parallel.schedule = layout.schedule;
  config.parallel.chunks = layout.chunks;
  config.parallel.bucket_megabytes = 4.0 / 1024;  // 1,024 gradients
  config.train.micro_batch = rows;
  config.train.global_batch = rows * micro_batches;
  config.train.divergence_check_every = 0;
  config.train.noise_scale_every = layout.noise_every;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.betas = {0.9, 0.999};
  config.optimizer.weight_decay = 0;
  config.lr_schedule.name = LrDecay::constant;
  return config;
}

RankResources resources_of(Device& device, Communicator& world, const MeshShape& shape) {
  auto own = world.split(0, world.rank(), "world");
  ProcessMesh mesh(*own, shape);
  return {{&device, [](Device*) {}}, std::move(own), nullptr, std::move(mesh)};
}

// An engine that trains one chain on one batch.
class Training {
 public:
  Training(Device& device, Communicator& world, const OwnModel& model, const Batch& batch,
           std::int64_t rows, const Layout& layout, int micro_batches = global_micro_batches,
           std::vector<std::shared_ptr<GradientTransform>> transforms = {})
      : batch_(batch),
        engine_(
            resources_of(device, world,
                         mesh_shape(config_of(layout, rows, micro_batches).parallel)),
            config_of(layout, rows, micro_batches), Purpose::train,
            {.model = model,
             .batches = [&](Device&,
                            const Config&) { return std::make_unique<test::FixedSource>(batch_); },
             .transforms = std::move(transforms)}) {
    engine_.begin();
  }

  // Losses and norms of `steps` steps; afterwards the allocations of the last one.
  std::vector<StepReport> run(int steps) {
    const Device& device = *engine_.session().device;
    StepEngine& stepper = engine_.training().state->engine;
    std::vector<StepReport> reports(static_cast<std::size_t>(steps));
    for (StepReport& report : reports) {
      const std::int64_t news_before = news;
      const auto buffers_before = device.memory_use(MemoryKind::device).allocations;
      report = engine_.step();
      // The other stages' transfers may still be running.
      engine_.session().streams.comm->synchronize();
      stepper.runner().synchronize();
      buffers_in_last_step_ = device.memory_use(MemoryKind::device).allocations - buffers_before;
      news_in_last_step_ = news - news_before;
      EXPECT_GT(report.own.times[TimePart::step], 0);
      EXPECT_GE(report.own.times[TimePart::step], report.own.times[TimePart::forward]);
    }
    stepper.settle();
    return reports;
  }
  void expect_no_allocations_in_last_step() const {
    ASSERT_GT(news, 0) << "nothing is counted";
    EXPECT_EQ(buffers_in_last_step_, 0U);
    EXPECT_EQ(news_in_last_step_, 0);
  }
  [[nodiscard]] EvaluationResult evaluate_on_batch(std::int64_t targets) {
    Session& session = engine_.session();
    test::FixedSource source(batch_);
    return evaluate({*session.device, *session.model, session.mesh,
                     engine_.training().state->engine.runner(), session.streams, &session.tensor},
                    source,
                    {.local_batches = 1,
                     .parts = {{session.mesh.shape().data, targets * session.mesh.shape().data}}});
  }

 private:
  Batch batch_;
  Engine engine_;
  std::uint64_t buffers_in_last_step_ = 0;
  std::int64_t news_in_last_step_ = 0;
};

class StepTest : public test::MpiTest {
 protected:
  // Whether all data ranks have equally many micro-batches.
  [[nodiscard]] static bool even(int data_ranks) { return global_micro_batches % data_ranks == 0; }
  // All kinds of steps on this number of ranks.
  [[nodiscard]] std::vector<Layout> layouts() const {
    std::vector<Layout> all;
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool layout : {false, true}) {
        for (const int zero : {0, 1, 2, 3}) {
          if (zero >= 2 && !even(size())) continue;
          all.push_back({.mesh = {.data = size()},
                         .zero = zero,
                         .layout_independent = layout,
                         .dtype = dtype});
          if (zero > 0 && size() % 2 == 0 && size() > 2)
            all.push_back({.mesh = {.data = size(), .shard = 2},
                           .zero = zero,
                           .layout_independent = layout,
                           .dtype = dtype});
        }
      }
    }
    for (const int stages : {2, 4}) {
      if (size() % stages != 0) continue;
      const MeshShape mesh{.pipeline = stages, .data = size() / stages};
      for (const int zero : {0, 1, 3}) {
        if (zero >= 2 && !even(mesh.data)) continue;
        for (const bool layout : {false, true}) {
          for (const auto kind : {ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble})
            all.push_back({mesh, zero, kind, 1, layout});
          // With powers of two every data rank has complete rounds.
          if (stages == 2 && (layout || even(mesh.data)))
            all.push_back({mesh, zero, ScheduleKind::interleaved, 2, layout});
        }
      }
    }
    return all;
  }
};

class GptStepTest : public StepTest {
 protected:
  static constexpr GptOptions options{
      .layers = 4, .hidden = 32, .heads = 2, .context = 16, .vocabulary = 50};
  static constexpr std::int64_t rows = 2, targets = rows * 16;

  [[nodiscard]] Training make(const Layout& layout, Communicator& world, float dropout = 0,
                              int micro_batches = global_micro_batches,
                              std::shared_ptr<GradientTransform> transform = nullptr) {
    GptOptions gpt = options;
    gpt.dropout = dropout;
    const OwnModel model{
        gpt_chain(gpt),
        {InputKind::tokens, {TargetKind::tokens, {gpt.context}}, gpt.context, "tokens"}};
    std::vector<std::shared_ptr<GradientTransform>> transforms;
    if (transform) transforms.push_back(std::move(transform));
    return {device(), world, model, batch_, rows, layout, micro_batches, std::move(transforms)};
  }

  const test::Owned<std::int32_t> inputs_{
      device(), {rows, 16}, random_values<std::int32_t>(targets, 50, 1)};
  const test::Owned<std::int32_t> targets_{
      device(), {rows, 16}, random_values<std::int32_t>(targets, 50, 2)};
  const test::Owned<std::int64_t> ids_{device(), {rows}, {1, 2}};
  const Batch batch_{inputs_.tensor(), targets_.tensor(), ids_.tensor(), {}};
};

TEST_F(GptStepTest, AllocatesNothingOnceItIsWarmAndLearnsOnEveryLayout) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.to_string());
    Training training = make(layout, world(), /*dropout=*/0.1F);

    const auto reports = training.run(5);

    training.expect_no_allocations_in_last_step();
    EXPECT_LT(reports.back().loss, 0.9 * reports.front().loss);
  }
}

TEST_F(GptStepTest, TrainsAlikeOnEveryLayout) {
  const auto single = make_single_communicator();
  std::map<DType, std::vector<StepReport>> expected;
  for (const DType dtype : {DType::f32, DType::bf16})
    expected[dtype] = make({.dtype = dtype}, *single).run(4);

  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.to_string());

    const auto reports = make(layout, world()).run(4);

    const double tolerance = layout.dtype == DType::f32 ? 1e-4 : 2e-2;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_NEAR(reports[i].loss, expected[layout.dtype][i].loss, tolerance) << "step " << i;
      EXPECT_NEAR(reports[i].grad_norm, expected[layout.dtype][i].grad_norm, tolerance)
          << "step " << i;
    }
  }
}

TEST_F(GptStepTest, HasTheSameBitsOnEveryLayoutWhenAskedTo) {
  const auto single = make_single_communicator();
  const auto expected = make({.layout_independent = true}, *single).run(4);

  for (const Layout& layout : layouts()) {
    if (!layout.layout_independent || layout.dtype != DType::f32) continue;
    SCOPED_TRACE(layout.to_string());

    const auto reports = make(layout, world()).run(4);

    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].loss, expected[i].loss) << "step " << i;
      EXPECT_EQ(reports[i].grad_norm, expected[i].grad_norm) << "step " << i;
    }
  }
}

// Makes each element of a gradient a function of its place in the whole tensor.
struct Replaced final : GradientTransform {
  void apply(Stream& stream, const ParamStore& params, const GradientStep& step) override {
    params.for_each_owned_gradient(
        [&](const ParamSpec& spec, const Tensor& values, std::int64_t first) {
          const std::string& name = spec.identity();
          ops::fill_normal(stream, values, static_cast<std::uint64_t>(step.number),
                           stable_id(name.data(), name.size()), first, 0, 1);
        });
  }
};

TEST_F(GptStepTest, AProgramsTransformSeesEachElementOnEveryLayout) {
  const auto single = make_single_communicator();
  const auto train = [&](const Layout& layout, Communicator& ranks) {
    return make(layout, ranks, 0, global_micro_batches, std::make_shared<Replaced>()).run(3);
  };
  const auto expected = train({.layout_independent = true}, *single);
  EXPECT_NEAR(expected[0].grad_norm, std::sqrt(12.0 * 32 * 32 * 4 + 66 * 32), 5);

  for (const Layout& layout : layouts()) {
    if (!layout.layout_independent || layout.dtype != DType::f32) continue;
    SCOPED_TRACE(layout.to_string());

    const auto reports = train(layout, world());

    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].loss, expected[i].loss) << "step " << i;
      EXPECT_EQ(reports[i].grad_norm, expected[i].grad_norm) << "step " << i;
    }
  }
}

// Micro-batches of one sample each.
class NoiseTest : public StepTest {
 protected:
  static constexpr std::int64_t length = 8;
  static constexpr LlamaOptions options{
      .layers = 2, .hidden = 16, .heads = 2, .context = length, .vocabulary = 31};

  struct Sample {
    Sample(Device& device, unsigned seed)
        : inputs(device, {1, length}, random_values<std::int32_t>(length, 31, seed)),
          targets(device, {1, length}, random_values<std::int32_t>(length, 31, seed + 100)) {}
    test::Owned<std::int32_t> inputs, targets;
  };
  // The micro-batches of a data rank, again in each step.
  class Source final : public BatchSource {
   public:
    explicit Source(std::vector<Batch> batches) : batches_(std::move(batches)) {}
    const Batch& next(Stream&, Stream&) override { return batches_[next_++ % batches_.size()]; }
    [[nodiscard]] double wait_seconds() const override { return 0; }

   private:
    std::vector<Batch> batches_;
    std::size_t next_ = 0;
  };

  // Trains on samples [first, first + count) without moving; the last step's report.
  [[nodiscard]] StepReport run(const Layout& layout, Communicator& world, int first, int count,
                               int steps, bool tied) {
    LlamaOptions llama = options;
    llama.tied_head = tied;
    const OwnModel model{llama_chain(llama),
                         {InputKind::tokens, {TargetKind::tokens, {length}}, length, "tokens"}};
    Config config = config_of(layout, 1, count);
    config.optimizer.learning_rate = 0;
    Engine engine(resources_of(device(), world, layout.mesh), config, Purpose::train,
                  {.model = model, .batches = [&](Device&, const Config&) {
                     const auto [own, local] =
                         batch_slices(config).of(world.rank() % layout.mesh.data);
                     std::vector<Batch> batches;
                     for (std::int64_t i = first + own; i < first + own + local; ++i) {
                       const Sample& sample = samples_[static_cast<std::size_t>(i)];
                       batches.push_back(
                           {sample.inputs.tensor(), sample.targets.tensor(), ids_.tensor(), {}});
                     }
                     return std::make_unique<Source>(batches);
                   }});
    engine.begin();
    StepReport report;
    for (int step = 0; step < steps; ++step)
      report = engine.step();
    engine.training().state->engine.settle();
    return report;
  }

  static constexpr int batch = 8;
  std::vector<Sample> samples_ = [this] {
    std::vector<Sample> samples;
    for (unsigned i = 0; i < batch; ++i)
      samples.emplace_back(device(), i + 1);
    return samples;
  }();
  const test::Owned<std::int64_t> ids_{device(), {1}, {1}};
};

// The gradient of a tied matrix is the sum of those of its uses.
TEST_F(NoiseTest, IsThatOfTheGradientsOfSingleSamples) {
  const auto single = make_single_communicator();
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied);
    double small = 0;
    for (int i = 0; i < batch; ++i) {
      const double norm = run({}, *single, i, 1, 1, tied).grad_norm;
      small += norm * norm / batch;
    }

    const StepReport report = run({.noise_every = 1}, *single, 0, batch, 1, tied);

    const double large = report.grad_norm * report.grad_norm;
    ASSERT_TRUE(report.noise.has_value());
    EXPECT_NEAR(report.noise->square, (batch * large - small) / (batch - 1), 1e-5 * small);
    EXPECT_NEAR(report.noise->trace, (small - large) / (1 - 1.0 / batch), 1e-5 * small);
    EXPECT_DOUBLE_EQ(report.noise->scale, report.noise->trace / report.noise->square);
    EXPECT_FALSE(run({.noise_every = 2}, *single, 0, batch, 1, tied).noise.has_value());
    // Equal measurements equal their mean.
    EXPECT_NEAR(run({.noise_every = 2}, *single, 0, batch, 4, tied).noise->scale,
                report.noise->scale, 1e-5 * std::abs(report.noise->scale));
  }
}

TEST_F(NoiseTest, HasTheSameBitsOnEveryLayout) {
  const auto single = make_single_communicator();
  const Layout alone{.layout_independent = true, .noise_every = 1};
  for (const bool tied : {false, true}) {
    const NoiseReading expected = run(alone, *single, 0, batch, 2, tied).noise.value();

    for (Layout layout : layouts()) {
      if (!layout.layout_independent || layout.dtype != DType::f32 || layout.zero > 1) continue;
      if (layout.chunks > 1) continue;                 // more than the model has layers
      if (layout.mesh.pipeline > 1 && tied) continue;  // refused
      layout.noise_every = 1;
      SCOPED_TRACE(layout.to_string());

      const NoiseReading got = run(layout, world(), 0, batch, 2, tied).noise.value();

      EXPECT_EQ(got.scale, expected.scale);
      EXPECT_EQ(got.trace, expected.trace);
      EXPECT_EQ(got.square, expected.square);
    }
  }
}

TEST_F(GptStepTest, MicroBatchesAddUpToTheWholeBatch) {
  // Several micro-batches with the same samples have the loss and gradient norm of one.
  std::vector<StepReport> reports;
  for (const int micro_batches : {1, 2, 5}) {
    reports.push_back(
        make({.mesh = {.data = size()}}, world(), 0, micro_batches * size()).run(1)[0]);
  }

  for (const StepReport& report : reports) {
    EXPECT_NEAR(report.loss, reports[0].loss, 1e-6);
    EXPECT_NEAR(report.grad_norm, reports[0].grad_norm, 1e-5);
  }
}

TEST_F(StepTest, AResNetAllocatesNothingOnceItIsWarmAndItsStatisticsFollowTheData) {
  const Chain chain = resnet_chain({.stages = {1, 1},
                                    .width = 8,
                                    .stem = ResNetStemKind::small,
                                    .image_size = 10,
                                    .channels = 1,
                                    .classes = 3},
                                   {.mean = {0.5F}, .stddev = {0.3F}});
  const test::Owned<std::uint8_t> images(device(), {4, 10, 10, 1},
                                         random_values<std::uint8_t>(400, 256, 3));
  const test::Owned<std::int32_t> labels(device(), {4}, {0, 1, 2, 0});
  const test::Owned<std::int64_t> ids(device(), {4}, {1, 2, 3, 4}),
      epochs(device(), {4}, {0, 0, 0, 0});
  const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};
  for (const int zero : {0, 1, 3}) {
    SCOPED_TRACE(zero);
    Training training(device(), world(),
                      {chain, {InputKind::images, {TargetKind::label}, 1, "images"}}, batch, 4,
                      {.mesh = {.data = size()}, .zero = zero}, 2 * size());

    const auto reports = training.run(60);

    training.expect_no_allocations_in_last_step();
    EXPECT_LT(reports.back().loss, reports.front().loss);
    // After 60 steps the running statistics are close to those of the batch: evaluation agrees with
    // training.
    EXPECT_NEAR(training.evaluate_on_batch(4).loss, reports.back().loss, 0.5);
  }
}

}  // namespace
}  // namespace trireme
