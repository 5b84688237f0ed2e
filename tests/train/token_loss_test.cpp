// SPDX-License-Identifier: Apache-2.0
// Losses of a router are means over tokens, whatever number of targets counts: their part of an
// update is the same for every mask, head and layout.
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "launch/engine/engine.h"
#include "models/llama/llama.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

constexpr int micro_batches = 8;
constexpr std::int64_t rows = 2, longest = 8, vocabulary = 50, slots = 2;
using Updates = std::map<std::string, std::vector<float>>;  // by parameter: w after - w before

enum class Mask : std::uint8_t { all, documents, answers, none };

struct Case {
  Mask mask = Mask::all;
  bool losses = true;  // of the router
  HeadKind head = HeadKind::language;
  std::int64_t context = longest, text = longest;  // tokens, and those that are no padding
  bool shared = false;                             // experts are shared by the data ranks
};

LlamaOptions options_of(const Case& one) {
  return {.layers = 2,
          .hidden = 16,
          .heads = 2,
          .intermediate = 24,
          .context = one.context,
          .vocabulary = vocabulary,
          .experts = 4,
          .experts_per_token = slots,
          .expert_intermediate = 24,
          .sequence_balance_loss = one.losses ? 0.5 : 0.0,
          .router_z_loss = one.losses ? 0.25 : 0.0,
          .head = one.head,
          .classes = 5};
}

bool counts(Mask mask, unsigned number, std::int64_t row, std::int64_t t) {
  switch (mask) {
    case Mask::documents:
      return (t + row + number) % 3 != 0;
    case Mask::answers:
      return number % 2 == 0 && t > 5;
    default:
      return mask == Mask::all;
  }
}

// The first `text` tokens of a row do not depend on the context.
class MaskedBatches final : public BatchSource {
 public:
  MaskedBatches(Device& device, const Config& config, int data_rank, const Case& one) {
    const BatchSlices slices = batch_slices(config);
    const std::int64_t count = slices.of(data_rank).count;
    for (std::int64_t m = 0; m < count; ++m) {
      const auto number = static_cast<unsigned>(slices.number(data_rank, m, count));
      std::mt19937 engine(number + 1);
      std::vector<std::int32_t> inputs, targets, starts, labels;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t t = 0; t < longest; ++t) {
          const auto token = static_cast<std::int32_t>(engine() % vocabulary);
          if (t >= one.context) continue;
          inputs.push_back(token);
          targets.push_back(counts(one.mask, number, row, t) ? (token + 1) % 50 : ignored_target);
          starts.push_back(static_cast<std::int32_t>(t < one.text ? 0 : one.text));
        }
        labels.push_back(static_cast<std::int32_t>((number + row) % 5));
      }
      const Shape shape{rows, one.context};
      const bool language = one.head == HeadKind::language;
      ids_.push_back(std::make_unique<test::Owned<std::int64_t>>(
          device, Shape{rows}, std::vector<std::int64_t>{2 * number, 2 * number + 1}));
      Batch batch{keep(device, shape, inputs),
                  language ? keep(device, shape, targets) : keep(device, Shape{rows}, labels),
                  ids_.back()->tensor(), ids_.back()->tensor()};
      batch.padded = one.text < one.context;
      if (batch.padded) batch.document_starts = keep(device, shape, starts);
      batches_.push_back(batch);
    }
  }
  const Batch& next(Stream&, Stream&) override { return batches_[next_++ % batches_.size()]; }
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  Tensor keep(Device& device, const Shape& shape, const std::vector<std::int32_t>& values) {
    kept_.push_back(std::make_unique<test::Owned<std::int32_t>>(device, shape, values));
    return kept_.back()->tensor();
  }

  std::vector<std::unique_ptr<test::Owned<std::int32_t>>> kept_;
  std::vector<std::unique_ptr<test::Owned<std::int64_t>>> ids_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
};

class TokenLossTest : public test::MpiTest {
 protected:
  // Of one step of plain gradient descent with a rate of 1, of parameters that all ranks hold.
  [[nodiscard]] Updates update(const Case& one, Communicator& world) const {
    Config config;
    config.run.seed = 1;
    config.reproducibility = Reproducibility::layout;
    config.parallel.data = world.size();
    config.parallel.expert = one.shared ? world.size() : 1;
    config.train.micro_batch = rows;
    config.train.global_batch = rows * micro_batches;
    config.train.clip_norm = 0;
    config.optimizer.name = OptimizerKind::sgd;
    config.optimizer.momentum = 0;
    config.optimizer.weight_decay = 0;
    config.optimizer.learning_rate = 1;
    config.lr_schedule.name = LrDecay::constant;
    const LlamaOptions options = options_of(one);
    const bool language = one.head == HeadKind::language;
    OwnModel model{llama_chain(options),
                   {InputKind::tokens,
                    language ? TargetSpec{TargetKind::tokens, {one.context}}
                             : TargetSpec{TargetKind::label, {}, 5},
                    one.context, "tokens"}};
    auto own = world.split(0, world.rank(), "world");
    ProcessMesh mesh(*own, mesh_shape(config.parallel));
    const int data_rank = mesh.here().data;
    Engine engine({{&device(), [](Device*) {}}, std::move(own), nullptr, std::move(mesh)}, config,
                  Purpose::train,
                  {.model = std::move(model), .batches = [&](Device&, const Config&) {
                     return std::make_unique<MaskedBatches>(device(), config, data_rank, one);
                   }});
    engine.begin();
    Updates values = weights(engine);
    static_cast<void>(engine.step());
    engine.training().state->engine.settle();
    for (auto& [name, after] : weights(engine)) {
      std::vector<float>& before = values[name];
      for (std::size_t i = 0; i < after.size(); ++i)
        before[i] = after[i] - before[i];
    }
    return values;
  }
  [[nodiscard]] static Updates weights(Engine& engine) {
    const ParamStore& params = engine.session().model->params();
    Updates values;
    for (int i = 0; i < static_cast<int>(params.layout().specs().size()); ++i) {
      const ParamSpec& spec = params.layout().spec({i});
      if (spec.expert) continue;
      const auto* const first = params.master({i}).as<float>();
      values[spec.name].assign(first, first + spec.shape.count());
    }
    return values;
  }
  // What the router's losses add to an update.
  [[nodiscard]] Updates added(Case one, Communicator& world) const {
    one.losses = true;
    Updates with = update(one, world);
    one.losses = false;
    for (const auto& [name, without] : update(one, world)) {
      for (std::size_t i = 0; i < without.size(); ++i)
        with[name][i] -= without[i];
    }
    return with;
  }
  static void expect_near(const Updates& found, const Updates& wanted) {
    int compared = 0;
    for (const auto& [name, values] : wanted) {
      const auto other = found.find(name);
      if (other == found.end() || name.starts_with("head") || name.ends_with("load")) continue;
      ++compared;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(other->second[i], values[i], 3e-6) << name << " " << i;
    }
    EXPECT_GT(compared, 8);
  }
};

TEST_F(TokenLossTest, AddTheSameToAnUpdateWhateverTargetsCount) {
  const auto single = make_single_communicator();
  const Updates wanted = added({}, *single);
  float largest = 0;
  for (const float value : wanted.at("blocks.0.mlp.router.weight"))
    largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 1e-3F);

  for (const bool shared : {false, true}) {
    for (const Mask mask : {Mask::all, Mask::documents, Mask::answers}) {
      SCOPED_TRACE(fmt::format("mask {}, shared {}", static_cast<int>(mask), shared));
      expect_near(added({.mask = mask, .shared = shared}, world()), wanted);
    }
    SCOPED_TRACE("classes");
    expect_near(added({.head = HeadKind::classes, .shared = shared}, world()), wanted);
  }
}

TEST_F(TokenLossTest, ChangeNothingInAStepWithoutTargets) {
  for (const auto& [name, values] : added({.mask = Mask::none}, world()))
    EXPECT_THAT(values, testing::Each(0.0F)) << name;
}

TEST_F(TokenLossTest, HaveTheBitsOfOneRankInLayoutMode) {
  const auto single = make_single_communicator();
  for (const Mask mask : {Mask::documents, Mask::none})
    EXPECT_EQ(update({.mask = mask}, world()), update({.mask = mask}, *single));
}

TEST_F(TokenLossTest, LeavePaddingOut) {
  const auto single = make_single_communicator();
  const Updates wanted = added({.context = 4, .text = 4}, *single);

  const Case padded{.head = HeadKind::classes, .text = 4};

  expect_near(added(padded, world()), wanted);
  const std::vector<float> load = update(padded, world()).at("blocks.1.mlp.router.load");
  EXPECT_EQ(std::accumulate(load.begin(), load.end(), 0.0F), micro_batches * rows * 4 * slots);
}

}  // namespace
}  // namespace trireme
