// SPDX-License-Identifier: Apache-2.0
// Training steps with experts on every grid: a layer that does with plain loops and gathers what a
// mixture of experts does with an exchange of rows.
#include <map>
#include <random>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

constexpr int micro_batches = 8, expert_count = 8;
constexpr std::int64_t rows = 2, context_length = 8, hidden = 16, vocabulary = 50;

// y = x * (1 + w[e]), elementwise: row r goes to expert e = r % 8; w is (8, C).
class Scales final : public Layer {
 public:
  explicit Scales(Blueprint& blueprint)
      : Layer("scales", blueprint.input()),
        split_(blueprint.experts().split),
        sharing_(blueprint.experts().data_ranks) {
    weight_ = blueprint.parameter({.name = "weight",
                                   .shape = {expert_count, hidden},
                                   .init = Init::normal(0.5F),
                                   .shard_axis = 0,
                                   .expert = true});
    const std::int64_t all = split_.ranks * output_shape().count();
    weights_ = blueprint.scratch({expert_count, hidden}, DType::f32);
    xs_ = blueprint.scratch({all}, DType::f32);
    dys_ = blueprint.scratch({all}, DType::f32);
  }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    scale(context, x, y);
  }
  void backward(const Context& context, const Tensor& x, const Tensor& /*y*/, const Tensor& dy,
                const Tensor& dx) override {
    const float* const xs = gathered(context, context(xs_), x);
    const float* const dys = gathered(context, context(dys_), dy);
    const std::int64_t count = output_shape().count(), local = expert_count / split_.ranks;
    for (int sender = 0; sender < sharing_; ++sender) {
      const int source = context.params.sources(weight_) > 1 ? sender : 0;
      float* const sums = context.params.gradient(weight_, source).as<float>();
      // Of each data rank the rows of its first tensor rank.
      const std::int64_t begin = sender * (split_.ranks / sharing_) * count;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t expert = i / hidden % expert_count - split_.rank * local;
        if (expert >= 0 && expert < local)
          sums[expert * hidden + i % hidden] += xs[begin + i] * dys[begin + i];
      }
    }
    context.ready(weight_);
    scale(context, dy, dx);
  }

 private:
  const float* gathered(const Context& context, const Tensor& all, const Tensor& own) const {
    if (split_.ranks == 1) return own.as<float>();
    context.experts->all_gather(context.stream, own.reshaped({own.count()}),
                                all.range(0, split_.ranks * own.count()));
    return all.as<float>();
  }
  void scale(const Context& context, const Tensor& from, const Tensor& to) const {
    const float* const weights =
        gathered(context, context(weights_).reshaped({expert_count * hidden}),
                 context.params.compute(weight_));
    for (std::int64_t i = 0; i < from.count(); ++i)
      to.as<float>()[i] =
          from.as<float>()[i] * (1 + weights[i / hidden % expert_count * hidden + i % hidden]);
  }

  TensorSplit split_;
  int sharing_;
  ParamId weight_;
  Activation weights_, xs_, dys_;
};

OwnModel model_with_experts() {
  Chain chain = gpt_chain({.layers = 2,
                           .hidden = hidden,
                           .heads = 2,
                           .context = context_length,
                           .vocabulary = vocabulary});
  chain.insert(chain.begin() + 2, in_scope<Scales>("experts"));
  return {std::move(chain),
          {InputKind::tokens, {TargetKind::tokens, {context_length}}, context_length, "tokens"}};
}

struct Grid {
  MeshShape mesh{};
  int zero = 0;
  bool layout_independent = true;
  int batches = micro_batches;

  [[nodiscard]] std::string to_string() const {
    return fmt::format(
        "pipeline {} x data {} x tensor {}, experts on {} data ranks, ZeRO {} in groups of {}, {}",
        mesh.pipeline, mesh.data, mesh.tensor, mesh.expert, zero, mesh.shard,
        layout_independent ? "layout" : "fast");
  }
};

Config config_of(const Grid& grid) {
  Config config;
  config.run.seed = 1;
  config.reproducibility =
      grid.layout_independent ? Reproducibility::layout : Reproducibility::fast;
  ParallelConfig& parallel = config.parallel;
  parallel.data = grid.mesh.data;
  parallel.tensor = grid.mesh.tensor;
  parallel.tensor_blocks = 2;
  parallel.expert = grid.mesh.tensor * grid.mesh.expert;
  parallel.pipeline = grid.mesh.pipeline;
  parallel.zero = grid.zero;
  parallel.zero_group = grid.mesh.shard > 1 ? grid.mesh.shard : 0;
  parallel.bucket_megabytes = 1.0 / 1024;
  config.train.micro_batch = rows;
  config.train.global_batch = rows * grid.batches;
  config.train.divergence_check_every = 2;
  config.train.clip_norm = 0.5;
  config.train.ema_decay = 0.9;
  config.optimizer.learning_rate = 1e-2;
  config.lr_schedule.name = LrDecay::constant;
  return config;
}

// Another batch for each micro-batch of a step, by its number in the global batch.
class Batches final : public BatchSource {
 public:
  Batches(Device& device, const Config& config, int data_rank) {
    const BatchSlices slices = batch_slices(config);
    const std::int64_t count = slices.of(data_rank).count;
    for (std::int64_t m = 0; m < count; ++m) {
      const auto number = static_cast<unsigned>(slices.number(data_rank, m, count));
      std::mt19937 engine(number + 1);
      const auto tokens = [&] {
        std::vector<std::int32_t> values(rows * context_length);
        for (auto& value : values)
          value = static_cast<std::int32_t>(engine() % vocabulary);
        return values;
      };
      const Shape shape{rows, context_length};
      inputs_.push_back(std::make_unique<test::Owned<std::int32_t>>(device, shape, tokens()));
      targets_.push_back(std::make_unique<test::Owned<std::int32_t>>(device, shape, tokens()));
      ids_.push_back(std::make_unique<test::Owned<std::int64_t>>(
          device, Shape{rows}, std::vector<std::int64_t>{2 * number, 2 * number + 1}));
      batches_.push_back(
          {inputs_.back()->tensor(), targets_.back()->tensor(), ids_.back()->tensor(), {}});
    }
  }
  const Batch& next(Stream&, Stream&) override { return batches_[next_++ % batches_.size()]; }
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  std::vector<std::unique_ptr<test::Owned<std::int32_t>>> inputs_, targets_;
  std::vector<std::unique_ptr<test::Owned<std::int64_t>>> ids_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
};

class ExpertStepTest : public test::MpiTest {
 protected:
  struct Result {
    std::vector<std::pair<double, double>> steps;  // loss and gradient norm
    std::vector<std::uint64_t> weights;            // digests of all tensors
  };
  [[nodiscard]] Result train(const Grid& grid, Communicator& world) const {
    const Config config = config_of(grid);
    auto own = world.split(0, world.rank(), "world");
    ProcessMesh mesh(*own, mesh_shape(config.parallel));
    const int data_rank = mesh.here().data;
    Engine engine({{&device(), [](Device*) {}}, std::move(own), nullptr, std::move(mesh)}, config,
                  Purpose::train,
                  {.model = model_with_experts(), .batches = [&](Device&, const Config&) {
                     return std::make_unique<Batches>(device(), config, data_rank);
                   }});
    engine.begin();
    Result result;
    for (int step = 0; step < 4; ++step) {
      const StepReport report = engine.step();
      result.steps.emplace_back(report.loss, report.grad_norm);
    }
    Session& session = engine.session();
    engine.training().state->engine.settle();
    if (engine.training().state->replicas) {
      engine.training().state->replicas->start(4);
      engine.training().state->replicas->finish();
    }
    result.weights = WeightDigests(*session.device, session.model->params(), session.mesh,
                                   session.placed_params(), 1)
                         .of_all(*session.streams.compute);
    return result;
  }
  // All that the rules allow on this number of ranks.
  template <typename Action>
  void for_each_grid(Action&& action) const {
    for (const int tensor : {1, 2}) {
      for (const int pipeline : {1, 2}) {
        if (size() % (tensor * pipeline) != 0) continue;
        const int data = size() / tensor / pipeline;
        for (int zero = 0; zero <= 3; ++zero) {
          for (int shard = 1; shard <= (zero == 0 ? 1 : data); shard *= 2) {
            if (zero > 0 && shard == 1 && data > 1) continue;
            for (int expert = 1; expert <= data; expert *= 2) {
              const MeshShape mesh{pipeline, data, tensor, shard, expert};
              for (const bool layout : {false, true})
                if (!layout || zero < 2 || shard >= expert) action(Grid{mesh, zero, layout});
            }
          }
        }
      }
    }
  }
};

TEST_F(ExpertStepTest, HasTheBitsOfOneRankInLayoutModeAndItsValuesElsewhere) {
  const auto single = make_single_communicator();
  const Result expected = train({}, *single);
  EXPECT_LT(expected.steps.back().first, expected.steps.front().first);
  ASSERT_GT(expected.steps.front().second, 0.5) << "clipping is part of the test";

  for_each_grid([&](const Grid& grid) {
    SCOPED_TRACE(grid.to_string());

    const Result result = train(grid, world());

    if (grid.layout_independent) {
      EXPECT_EQ(result.steps, expected.steps);
      EXPECT_EQ(result.weights, expected.weights);
      return;
    }
    for (std::size_t i = 0; i < expected.steps.size(); ++i) {
      EXPECT_NEAR(result.steps[i].first, expected.steps[i].first, 1e-4);
      EXPECT_NEAR(result.steps[i].second, expected.steps[i].second, 1e-4);
    }
  });
}

// As many as fit the tree, if ranks that share experts have equally many.
TEST_F(ExpertStepTest, HasTheBitsOfOneRankWhereRanksHaveDifferentNumbersOfMicroBatches) {
  if (size() < 4) GTEST_SKIP() << "ranks that share experts are two here";
  const auto single = make_single_communicator();
  const Result expected = train({.batches = 12}, *single);
  for (const int zero : {0, 1}) {
    for (int shard = 1; shard <= (zero == 0 ? 1 : size()); shard *= 2) {
      const Grid grid{{1, size(), 1, shard, 2}, zero, true, 12};
      if (zero > 0 &&
          (shard == 1 || (shard < size() && batch_slices(config_of(grid)).doubled() % shard > 0)))
        continue;
      SCOPED_TRACE(grid.to_string());
      const Result result = train(grid, world());
      EXPECT_EQ(result.steps, expected.steps);
      EXPECT_EQ(result.weights, expected.weights);
    }
  }
}

}  // namespace
}  // namespace trireme
