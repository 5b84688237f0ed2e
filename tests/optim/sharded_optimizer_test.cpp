// SPDX-License-Identifier: Apache-2.0
// The optimizer over every mesh and ZeRO stage against one rank with everything.
#include <cmath>
#include <limits>
#include <map>

#include "runtime/optim/gradient_scale.h"
#include "runtime/optim/optimizer.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

constexpr int steps = 3;
constexpr int blocks = 4;  // divisible by the tensor ranks

// A part of the sample model with its optimizer.
class Part {
 public:
  // Without a mesh: everything.
  Part(Device& device, Stream& compute, Stream& comm, const ProcessMesh* mesh, int stage,
       const OptimizerConfig& options, bool exact, int tensor_blocks,
       std::span<const ParamSpec> chain)
      : compute_(compute),
        store_(test::sample_part(
            device, mesh ? mesh->shape() : MeshShape{}, mesh ? mesh->here() : MeshCoordinates{},
            tensor_blocks, {.compute = DType::bf16, .training = true, .zero = {.stage = stage}})) {
    store_.initialize(compute, 5);
    if (mesh != nullptr) groups_ = std::make_unique<ModelGroups>(device, *mesh, comm);
    const ModelGroups& groups = groups_ ? *groups_ : ModelGroups::one_rank();
    norm_ = std::make_unique<GradientNorm>(device, store_, /*clip=*/2.0F, exact, groups);
    optimizer_ = std::make_unique<Optimizer>(device, store_,
                                             OptimizerOptions{.config = options,
                                                              .groups = groups,
                                                              .exact = exact,
                                                              .chain = chain,
                                                              .transforms = {norm_.get()}});
  }

  // Gradients as the reducer leaves them; copies of a tied parameter have its sums.
  void set_gradients(std::uint64_t salt) {
    for (const Bucket& bucket : store_.layout().buckets()) {
      test::fill_owned(store_.layout(), bucket, store_.gradients().owned(bucket),
                       [&](const ParamSpec& spec, std::int64_t i) {
                         return test::sample_value(spec.identity(), i, salt);
                       });
    }
  }
  void run() {
    for (int step = 0; step < steps; ++step) {
      set_gradients(static_cast<std::uint64_t>(step) + 1);
      optimizer_->prepare(step, 0.01);
      optimizer_->step(compute_, {.number = step});
    }
  }
  [[nodiscard]] float norm() const { return norm_->value().as<float>()[0]; }
  [[nodiscard]] std::vector<float> factored() const {
    const Tensor values = optimizer_->factored_moments();
    if (values.empty()) return {};
    return {values.as<float>(), values.as<float>() + values.count()};
  }
  [[nodiscard]] ParamStore& store() { return store_; }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }

  struct State {
    float master = 0, first = 0, second = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  // visit(spec, element, state) of everything that this rank owns.
  template <typename Visit>
  void for_each_state(Visit&& visit) const {
    const Tensor first = optimizer_->first_moments(), second = optimizer_->second_moments();
    const auto at = [](const Tensor& moments, std::int64_t i) {
      return moments.empty() ? 0.0F : moments.as<float>()[i];
    };
    for (const Bucket& bucket : store_.layout().buckets()) {
      const float* const master = store_.masters().owned(bucket).as<float>();
      test::for_each_owned(store_.layout(), bucket,
                           [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
                             visit(spec, i,
                                   State{master[place], at(first, bucket.owned + place),
                                         at(second, bucket.owned + place)});
                           });
    }
  }
  // The bf16 copies of this rank's values are their rounding.
  void expect_rounded_copies() const {
    for (const Bucket& bucket : store_.layout().buckets()) {
      const Tensor master = store_.masters().owned(bucket),
                   copy = store_.compute_copies().owned(bucket);
      if (bucket.kind == ParamKind::statistic || copy.empty()) continue;
      for (std::int64_t i = 0; i < copy.count(); ++i)
        ASSERT_EQ(copy.as<bf16>()[i].bits, bf16(master.as<float>()[i]).bits);
    }
  }

 private:
  Stream& compute_;
  ParamStore store_;
  std::unique_ptr<ModelGroups> groups_;
  std::unique_ptr<GradientNorm> norm_;
  std::unique_ptr<Optimizer> optimizer_;
};

class ShardedOptimizerTest : public test::MpiTest {
 protected:
  template <typename Action>
  void for_each_layout(Action&& action) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const MeshShape& shape : test::zero_meshes_of(size(), stage)) {
        const ProcessMesh mesh(world(), shape);
        SCOPED_TRACE(fmt::format(
            "pipeline {} x data {} x tensor {}, stage {} in groups of {}, experts on {}",
            shape.pipeline, shape.data, shape.tensor, stage, shape.shard, shape.expert));
        action(mesh, stage);
      }
    }
  }
  [[nodiscard]] Part make_part(const ProcessMesh* mesh, int stage, const OptimizerConfig& options,
                               bool exact, int tensor_blocks = blocks,
                               std::span<const ParamSpec> chain = {}) const {
    return {device(), compute(), comm_stream(), mesh, stage, options, exact, tensor_blocks, chain};
  }
};

TEST_F(ShardedOptimizerTest, ReachesTheBitsOfOneRankOnEveryLayout) {
  for (const OptimizerTraits& optimizer : optimizer_table) {
    SCOPED_TRACE(optimizer.name);
    const OptimizerConfig options{
        .name = optimizer.kind, .nesterov = true, .trust_coefficient = 0.1};
    // Muon's sums depend on the tensor blocks; the others do not.
    Part alone = make_part(nullptr, 0, options, true, optimizer.orthogonal ? blocks : 1);
    alone.run();
    ASSERT_GT(alone.norm(), 2.0F);  // clipped, so that every element depends on the norm
    std::map<std::string, std::map<std::int64_t, Part::State>> expected;
    alone.for_each_state([&](const ParamSpec& spec, std::int64_t i, const Part::State& state) {
      expected[spec.name][i] = state;
    });

    for_each_layout([&](const ProcessMesh& mesh, int stage) {
      if (optimizer.orthogonal && mesh.shape().expert > 1) return;  // refused
      Part part = make_part(&mesh, stage, options, true, blocks, alone.store().layout().specs());

      part.run();

      EXPECT_EQ(part.norm(), alone.norm());
      EXPECT_EQ(part.factored(), alone.factored());
      part.for_each_state([&](const ParamSpec& spec, std::int64_t i, const Part::State& state) {
        ASSERT_EQ(state, expected.at(spec.name).at(i)) << spec.name << " " << i;
      });
      part.expect_rounded_copies();
    });
  }
}

TEST_F(ShardedOptimizerTest, KeepsCopiesOfATiedParameterEqual) {
  Part alone = make_part(nullptr, 0, OptimizerConfig{.weight_decay = 0.1}, true);
  alone.run();

  std::map<std::string, std::vector<float>> values;
  alone.for_each_state([&](const ParamSpec& spec, std::int64_t, const Part::State& state) {
    values[spec.name].push_back(state.master);
  });
  EXPECT_EQ(values.at("head"), values.at("table"));
}

TEST_F(ShardedOptimizerTest, FindsTheNormOfAllRanksInFastModeToo) {
  Part alone = make_part(nullptr, 0, OptimizerConfig{.weight_decay = 0}, true);
  alone.run();

  for_each_layout([&](const ProcessMesh& mesh, int stage) {
    Part part = make_part(&mesh, stage, OptimizerConfig{.weight_decay = 0}, false);

    part.run();

    EXPECT_NEAR(part.norm(), alone.norm(), 1e-6F * alone.norm());
  });
}

TEST_F(ShardedOptimizerTest, ChangesNothingAnywhereWhenOneRankHasANonFiniteGradient) {
  for_each_layout([&](const ProcessMesh& mesh, int stage) {
    for (const bool exact : {false, true}) {
      Part part = make_part(&mesh, stage, OptimizerConfig{.weight_decay = 0}, exact);
      part.set_gradients(1);
      std::vector<Part::State> before, after;
      part.for_each_state([&](const auto&, auto, const auto& state) { before.push_back(state); });
      // Ranks with equal slices have equal reduced gradients.
      const bool has_it = mesh.here().pipeline == 0 && mesh.here().tensor == 0 &&
                          mesh.here().data % mesh.shape().shard == 0;
      const ParamStore& store = part.store();
      if (has_it) {
        const int bucket = store.layout().bucket_of(store.layout().find("table"));
        const Bucket& table = store.layout().buckets()[static_cast<std::size_t>(bucket)];
        store.gradients().owned(table).as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
      }

      part.optimizer().prepare(0, 0.01);
      part.optimizer().step(compute(), {});

      part.for_each_state([&](const auto&, auto, const auto& state) { after.push_back(state); });
      EXPECT_FALSE(std::isfinite(part.norm()));
      EXPECT_EQ(after, before);
    }
  });
}

}  // namespace
}  // namespace trireme
