// SPDX-License-Identifier: Apache-2.0
// Recomputing the blocks of a ResNet changes neither gradients nor statistics.
#include <random>

#include "models/resnet/resnet.h"
#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

struct Outcome {
  std::vector<float> losses, gradients;
  std::size_t activation_bytes = 0;
};

class ResNetVariants : public test::CpuFixture {
 protected:
  [[nodiscard]] Outcome run(Recompute recompute) {
    const ResNetOptions options{.stages = {2, 2},
                                .width = 8,
                                .stem = ResNetStemKind::small,
                                .image_size = 8,
                                .channels = 1,
                                .classes = 5};
    Model model(*device_, resnet_chain(options),
                {.micro_batch = 3, .training = true, .recompute = recompute});
    model.params().initialize(*compute_, 3);
    // The last norms start at zero and would hide their branches.
    for (int i = 0; i < static_cast<int>(model.params().layout().specs().size()); ++i) {
      const ParamSpec& spec = model.params().layout().spec({i});
      if (spec.kind == ParamKind::weight && spec.init.kind == Init::Kind::constant) {
        ops::fill_normal(*compute_, model.params().master({i}), 9, static_cast<std::uint64_t>(i), 0,
                         0.5F, 0.3F);
      }
    }
    std::mt19937 engine(4);
    std::vector<std::uint8_t> pixels(3 * 8 * 8);
    for (auto& pixel : pixels)
      pixel = static_cast<std::uint8_t>(engine());
    const test::Owned<std::uint8_t> images(*device_, {3, 8, 8, 1}, pixels);
    const test::Owned<std::int32_t> labels(*device_, {3}, {1, 4, 0});
    const test::Owned<std::int64_t> ids(*device_, {3}, {0, 1, 2}), epochs(*device_, {3}, {0, 0, 0});
    const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};
    const Context context = model.context(*compute_, batch, true);
    ops::fill_constant(*compute_, model.params().gradients().whole(), 0);

    model.forward(context);
    model.backward(context);

    return {.losses = test::values_of<float>(context.losses),
            .gradients = test::values_of<float>(model.params().gradients().whole()),
            .activation_bytes = model.activation_bytes()};
  }
};

TEST_F(ResNetVariants, FullRecomputationGivesTheSameGradientsAndStatisticsInLessMemory) {
  const Outcome kept = run(Recompute::none);

  const Outcome recomputed = run(Recompute::full);

  EXPECT_EQ(recomputed.losses, kept.losses);
  EXPECT_EQ(recomputed.gradients, kept.gradients);
  EXPECT_LT(recomputed.activation_bytes, kept.activation_bytes);
}

}  // namespace
}  // namespace trireme
