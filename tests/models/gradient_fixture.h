// SPDX-License-Identifier: Apache-2.0
// Every parameter's gradient of a model against finite differences of the loss.
#pragma once

#include <cmath>
#include <random>

#include "runtime/nn/model.h"
#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"

namespace trireme::test {

class ModelGradientTest : public CpuFixture {
 protected:
  // The mean loss of the micro-batch, in f64.
  double loss(Model& model, Context& context) {
    model.forward(context);
    double sum = 0;
    for (const float value : values_of<float>(context.losses))
      sum += static_cast<double>(value);
    return sum / static_cast<double>(context.losses.count());
  }

  // Along a random direction of each parameter: (L(p + e d) - L(p - e d)) / 2e against <gradient,
  // d>.
  void expect_gradients_match(Model& model, Context context, double step, double tolerance) {
    context.loss.gradient_scale = 1.0F / static_cast<float>(context.losses.count());
    ops::fill_constant(*compute_, model.params().gradients().whole(), 0);
    model.forward(context);
    model.backward(context);
    for (int i = 0; i < static_cast<int>(model.params().layout().specs().size()); ++i) {
      const ParamSpec& spec = model.params().layout().specs()[static_cast<std::size_t>(i)];
      if (spec.kind != ParamKind::weight) continue;
      const Tensor values = model.params().master({i});
      float* const p = values.as<float>();
      const auto before = values_of<float>(values);
      const auto gradient = values_of<float>(model.params().gradient({i}));
      std::mt19937 engine(static_cast<unsigned>(i));
      std::normal_distribution<float> normal;
      std::vector<float> direction(before.size());
      double slope = 0, norm = 0;
      for (std::size_t k = 0; k < direction.size(); ++k) {
        direction[k] = normal(engine);
        slope += static_cast<double>(gradient[k]) * static_cast<double>(direction[k]);
        norm += static_cast<double>(gradient[k]) * static_cast<double>(gradient[k]);
      }
      const auto moved = [&](double e) {
        for (std::size_t k = 0; k < before.size(); ++k)
          p[k] = before[k] + static_cast<float>(e) * direction[k];
        return loss(model, context);
      };
      const double up = moved(step), down = moved(-step);
      std::copy(before.begin(), before.end(), p);
      const double rounding = 3e-7 / step;  // of losses around 2 in fp32
      const double numeric = (up - down) / (2 * step);
      EXPECT_NEAR(numeric, slope, tolerance * (std::abs(slope) + std::sqrt(norm)) + rounding)
          << spec.name;
    }
  }
};

}  // namespace trireme::test
