// SPDX-License-Identifier: Apache-2.0
// Experts on several ranks: the bits of one rank, however uneven the routing, and the functions
// that mixtures with one expert or equal experts must be.
#include <bit>

#include "runtime/ops/random/init.h"
#include "tests/models/model_case.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using test::ModelCase;
using test::ModelResult;

enum class Routing : std::uint8_t { drawn, to_one_expert, past_one_rank };

struct Uneven {
  Routing routing = Routing::drawn;
  double buffer = 2;
  std::int64_t context = 12, batch = test::small_batch;
  bool split_backward = false;
  Recompute recompute = Recompute::none;
  bool sequence = false;
};

class ExpertParallel : public test::MpiTest, public testing::WithParamInterface<Uneven> {
 protected:
  static constexpr int blocks = 4;

  [[nodiscard]] static TransformerOptions model() {
    TransformerOptions options = test::small_experts;
    options.context = GetParam().context;
    if (GetParam().routing == Routing::to_one_expert) options.experts.router.slots = 1;
    return options;
  }
  [[nodiscard]] static BuildOptions build(const TensorSplit& tensor) {
    return {
        .micro_batch = GetParam().batch,
        .training = true,
        .recompute = GetParam().recompute,
        .split_backward = GetParam().split_backward,
        .tensor = tensor,
        .sums = {.sequence = GetParam().sequence && tensor.ranks > 1},
        .experts = {.split = {.ranks = tensor.ranks, .rank = tensor.rank, .blocks = tensor.ranks},
                    .capacity_factor = GetParam().buffer}};
  }
  // Biases of the choice, far above all scores.
  void steer(ModelCase& with) {
    ParamStore& params = with.model().params();
    const Tensor biases = params.master(params.layout().find("blocks.1.mlp.router.balance"));
    for (std::int64_t e = 0; e < biases.count(); ++e) {
      float bias = 0;
      if (GetParam().routing == Routing::to_one_expert) bias = e == 5 ? 100.0F : 0.0F;
      if (GetParam().routing == Routing::past_one_rank) bias = e < 4 ? -100.0F : 0.0F;
      if (GetParam().routing != Routing::drawn) biases.as<float>()[e] = bias;
    }
  }
  [[nodiscard]] ModelResult run(const TensorSplit& tensor, const TensorGroup& group) {
    ModelCase with(device(), compute(), model(), build(tensor), &group);
    steer(with);
    return with.run();
  }
};

TEST_P(ExpertParallel, HasTheBitsOfOneRank) {
  const auto single = make_single_communicator();
  const ModelResult expected =
      run({.ranks = 1, .rank = 0, .blocks = blocks}, TensorGroup(device(), *single, comm_stream()));
  const TensorGroup group(device(), world(), comm_stream());
  ModelCase split(device(), compute(), model(),
                  build({.ranks = size(), .rank = rank(), .blocks = blocks}), &group);
  steer(split);

  const ModelResult got = split.run();

  EXPECT_EQ(got.losses, expected.losses);
  for (const ParamSpec& spec : split.model().params().layout().specs()) {
    EXPECT_EQ(got.gradients.at(spec.name),
              test::part_of(expected.gradients.at(spec.name), spec,
                            split.model().params().layout().split(spec)))
        << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Routings, ExpertParallel,
    testing::Values(
        Uneven{.buffer = 1}, Uneven{.routing = Routing::to_one_expert, .buffer = 1},
        Uneven{.routing = Routing::to_one_expert, .buffer = 100},
        Uneven{.routing = Routing::past_one_rank, .buffer = 1},
        Uneven{.routing = Routing::to_one_expert, .buffer = 1, .split_backward = true},
        Uneven{.routing = Routing::past_one_rank,
               .buffer = 1,
               .recompute = Recompute::selective,
               .sequence = true},
        Uneven{.routing = Routing::to_one_expert, .buffer = 1, .recompute = Recompute::full},
        Uneven{.buffer = 1, .context = 4, .batch = 1, .sequence = true}));

class ExpertTwins : public test::MpiTest {
 protected:
  // The mean loss with all parameters drawn alike, but for a mixture's.
  [[nodiscard]] double loss(const ExpertOptions& experts, bool equal_experts = false) {
    TransformerOptions options = test::small_llama;
    options.dropout = 0;
    options.experts = experts;
    ModelCase with(device(), compute(), options, {.micro_batch = test::small_batch});
    ParamStore& params = with.model().params();
    for (int i = 0; i < static_cast<int>(params.layout().specs().size()); ++i) {
      const std::string& name = params.layout().spec({i}).name;
      for (const auto& [part, key] : {std::pair{"expand", 1}, {"contract", 2}}) {
        if (name.find(std::string("mlp.") + part) == name.npos &&
            name.find(std::string("experts.") + part) == name.npos)
          continue;
        const std::int64_t count = equal_experts && experts.any() ? experts.count : 1;
        const Tensor all = params.master({i});
        for (std::int64_t e = 0; e < count; ++e) {
          ops::fill_normal(compute(), all.range(e * all.count() / count, all.count() / count),
                           static_cast<std::uint64_t>(key), 7, 0, 0, 0.2F);
        }
      }
    }
    Context context = with.context(0);
    with.model().forward(context);
    double sum = 0;
    for (std::int64_t i = 0; i < context.losses.count(); ++i)
      sum += static_cast<double>(context.losses.as<float>()[i]);
    return sum / static_cast<double>(context.losses.count());
  }
  [[nodiscard]] static ExpertOptions of(std::int64_t count, std::int64_t slots) {
    return {.count = count,
            .intermediate = test::small_llama.intermediate,
            .router = {.slots = slots, .renormalize = true}};
  }
};

TEST_F(ExpertTwins, OneExpertIsTheDenseModel) {
  const double dense = loss({});
  EXPECT_NEAR(loss(of(1, 1)), dense, 1e-6 * dense);
}

TEST_F(ExpertTwins, EqualExpertsAreTheDenseModelWhateverTheChoice) {
  const double dense = loss({});
  EXPECT_NEAR(loss(of(8, 3), /*equal_experts=*/true), dense, 1e-6 * dense);
}

}  // namespace
}  // namespace trireme
