// SPDX-License-Identifier: Apache-2.0
// Skips past layers of a chain, in one chunk and across every cut.
#include <array>
#include <string>

#include "runtime/nn/model.h"
#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

// y = factor * x (+ the skips that it takes); offers skips of factor * x plus their number.
class Node final : public Layer {
 public:
  struct Ends {
    std::vector<std::string> offers{}, takes{};
    bool in_place = false;
  };
  Node(Blueprint& blueprint, float factor, const Ends& ends)
      : Layer("node", Shape{3}), factor_(factor), in_place_(ends.in_place) {
    for (const std::string& name : ends.takes) {
      const OpenSkip taken = blueprint.take(name);
      EXPECT_EQ(taken.skip.shape, Shape{3});
      takes_.push_back(taken.id);
    }
    for (const std::string& name : ends.offers)
      offers_.push_back(blueprint.offer(name, Shape{3}));
    (void)blueprint.parameter({.name = "unused", .shape = {1}});
  }
  [[nodiscard]] bool backward_in_place() const override { return in_place_; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    for (int i = 0; i < 3; ++i) {
      float sum = factor_ * x.as<float>()[i];
      for (std::size_t k = 0; k < takes_.size(); ++k)
        sum += context.skip(takes_[k]).as<float>()[i] * static_cast<float>(k + 2);
      y.as<float>()[i] = sum;
      for (std::size_t k = 0; k < offers_.size(); ++k)
        context.skip(offers_[k]).as<float>()[i] = sum + static_cast<float>(k + 1);
    }
  }
  void backward(const Context& context, const Tensor&, const Tensor&, const Tensor& dy,
                const Tensor& dx) override {
    for (int i = 0; i < 3; ++i) {
      float sum = dy.as<float>()[i];
      for (const SkipId id : offers_)
        sum += context.skip_gradient(id).as<float>()[i];
      for (std::size_t k = 0; k < takes_.size(); ++k)
        context.skip_gradient(takes_[k]).as<float>()[i] = sum * static_cast<float>(k + 2);
      if (!dx.empty()) dx.as<float>()[i] = factor_ * sum;
      if (dx.empty()) first_gradient[static_cast<std::size_t>(i)] = factor_ * sum;
    }
  }
  static inline std::array<float, 3> first_gradient{};

 private:
  float factor_;
  bool in_place_;
  std::vector<SkipId> offers_, takes_;
};

class Head final : public Layer {
 public:
  Head() : Layer("head", Shape{}) {}
  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  void forward(const Context& context, const Tensor& x, const Tensor&) override {
    std::copy_n(x.as<float>(), 3, context.losses.as<float>());
  }
  void backward(const Context&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor& dx) override {
    for (int i = 0; i < 3; ++i)
      dx.as<float>()[i] = static_cast<float>(i + 1);
  }

 private:
  HeadInfo info_{.targets = 3};
};

// Levels as in a U-Net, one that works in place, and two skips to one layer.
Chain crossing_chain() {
  const std::vector<std::pair<float, Node::Ends>> nodes{{2, {.offers = {"outer", "other"}}},
                                                        {3, {.offers = {"inner"}}},
                                                        {5, {.in_place = true}},
                                                        {7, {.takes = {"inner"}}},
                                                        {1, {.in_place = true}},
                                                        {0.5F, {.takes = {"other", "outer"}}}};
  Chain chain;
  for (const auto& [factor, ends] : nodes)
    chain.push_back(
        {[=, name = std::to_string(chain.size())](Blueprint& blueprint) -> std::unique_ptr<Layer> {
          const auto scope = blueprint.layer(name);
          return std::make_unique<Node>(blueprint, factor, ends);
        }});
  chain.push_back({[](Blueprint&) -> std::unique_ptr<Layer> { return std::make_unique<Head>(); }});
  return chain;
}

class SkipTest : public test::CpuFixture {
 protected:
  static constexpr BuildOptions training{.training = true};

  struct Result {
    std::vector<float> losses;
    std::array<float, 3> gradient{};
    friend bool operator==(const Result&, const Result&) = default;
  };

  void hand_on(const Tensor& to, const Tensor& from) {
    ASSERT_EQ(to.shape, from.shape);
    device_->copy(*compute_, to.data, from.data, from.bytes());
  }

  // Cut before the layers of `cuts`.
  Result run(const std::vector<int>& cuts) {
    const Chain chain = crossing_chain();
    const auto layers = summarize(chain, DeviceType::cpu, training);
    std::vector<ChunkSpan> spans;
    std::vector<Handover> inputs;
    int first = 0;
    for (std::size_t c = 0; c <= cuts.size(); ++c) {
      const int last = c < cuts.size() ? cuts[c] : static_cast<int>(chain.size());
      spans.push_back({first, last, 1});
      inputs.push_back(first == 0 ? Handover{}
                                  : layers[static_cast<std::size_t>(first) - 1].handover());
      first = last;
    }
    Model model(*device_, chain, training, spans, inputs);
    model.poison_activations(true);
    const int chunks = static_cast<int>(spans.size());
    const auto context = [&](int chunk) { return model.context(*compute_, batch_, true, chunk); };
    for (int c = 0; c < chunks; ++c) {
      if (c > 0) {
        hand_on(model.input(context(c)), model.output(context(c - 1)));
        EXPECT_EQ(model.input(context(c)).count(),
                  layers[static_cast<std::size_t>(spans[static_cast<std::size_t>(c)].first) - 1]
                      .handed_on);
      }
      model.forward(context(c));
    }
    for (int c = chunks; c-- > 0;) {
      if (c + 1 < chunks)
        hand_on(model.output_gradient(context(c)), model.input_gradient(context(c + 1)));
      model.backward(context(c));
    }
    return {test::values_of<float>(context(chunks - 1).losses), Node::first_gradient};
  }

  const test::Owned<float> input_{*device_, {3}, {1, 2, 4}};
  const Batch batch_{input_.tensor(), {}, {}, {}};
};

TEST_F(SkipTest, CarryValuesForwardAndGradientsBack) {
  const Result whole = run({});

  // x = 1: 2, (outer 3, other 4), 6, (inner 7), 30, 210 + 2 * 7, 224, 112 + 2 * 4 + 3 * 3.
  EXPECT_EQ(whole.losses[0], 129);
  // d/dx = 2 (3 (5 * 7 + 2) / 2 + 2 + 3).
  EXPECT_EQ(whole.gradient[0], 121);
  EXPECT_EQ(whole.gradient[1], 242);
}

TEST_F(SkipTest, CrossEveryCutWithTheSameBits) {
  const Result whole = run({});

  for (int a = 1; a <= 6; ++a) {
    EXPECT_EQ(run({a}), whole) << "before layer " << a;
    for (int b = a + 1; b <= 6; ++b)
      EXPECT_EQ(run({a, b}), whole) << "before layers " << a << " and " << b;
  }
  EXPECT_EQ(run({1, 2, 3, 4, 5, 6}), whole);
}

TEST_F(SkipTest, AreListedBehindTheLayersThatTheyPass) {
  const auto layers = summarize(crossing_chain(), DeviceType::cpu, training);

  const Skip outer{"outer", {3}}, other{"other", {3}}, inner{"inner", {3}};
  EXPECT_EQ(layers[0].skips, (std::vector{outer, other}));
  EXPECT_EQ(layers[2].skips, (std::vector{outer, other, inner}));
  EXPECT_EQ(layers[3].skips, (std::vector{outer, other}));
  EXPECT_TRUE(layers[5].skips.empty());
  EXPECT_EQ(layers[5].handed_on, 3);
  EXPECT_EQ(layers[1].handed_on, 4 * 64);
}

TEST_F(SkipTest, ThatNobodyTakesOrOffersAreErrors) {
  Chain without_taker = crossing_chain();
  without_taker.erase(without_taker.begin() + 3);
  EXPECT_THROW((void)summarize(without_taker, DeviceType::cpu, training), Error);
  Chain without_offer = crossing_chain();
  without_offer.erase(without_offer.begin() + 1);
  EXPECT_THROW((void)summarize(without_offer, DeviceType::cpu, training), Error);
}

}  // namespace
}  // namespace trireme
