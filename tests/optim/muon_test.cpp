// SPDX-License-Identifier: Apache-2.0
// Muon's step against the same arithmetic in doubles, one rank.
#include <cmath>

#include "runtime/optim/optimizer.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using test::values_of;

// Row-major.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  double& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  [[nodiscard]] double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

Matrix zeros(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result = zeros(a.rows, b.columns);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t c = 0; c < b.columns; ++c)
        result.at(r, c) += a.at(r, k) * b.at(k, c);
  return result;
}

Matrix transposed(const Matrix& a) {
  Matrix result = zeros(a.columns, a.rows);
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c)
      result.at(c, r) = a.at(r, c);
  return result;
}

// The published iteration: X <- a X + (b A + c A^2) X, A = X X^T.
Matrix newton_schulz(Matrix x) {
  double norm = 0;
  for (const double value : x.values)
    norm += value * value;
  for (double& value : x.values)
    value /= std::sqrt(norm);
  for (int step = 0; step < 5; ++step) {
    const Matrix a = product(x, transposed(x)), ax = product(a, x), aax = product(a, ax);
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = 3.4445 * x.values[i] - 4.7750 * ax.values[i] + 2.0315 * aax.values[i];
  }
  return x;
}

class MuonTest : public test::CpuFixture {
 protected:
  ParamId declare(std::string name, const Shape& shape, int axis = -1, int parts = 1,
                  int lead = 1) {
    return params_.declare({.name = std::move(name),
                            .shape = shape,
                            .init = Init::normal(1),
                            .decay = true,
                            .matrix = true,
                            .hidden = true,
                            .shard_axis = axis,
                            .shard_parts = parts,
                            .shard_lead = lead});
  }
  void allocate() {
    params_.allocate(*device_, {.training = true});
    params_.initialize(*compute_, 5);
  }
  // Steps once with gradients that are functions of the element, the same for every step.
  void run(Optimizer& optimizer, std::int64_t step) {
    for (const ParamId id : params_.layout().order()) {
      float* const gradient = params_.gradient(id).as<float>();
      for (std::int64_t i = 0; i < params_.gradient(id).count(); ++i)
        gradient[i] = static_cast<float>(std::sin(static_cast<double>(7 * i + 3 * step)));
    }
    optimizer.prepare(step, 0.1);
    optimizer.step(*compute_, {.number = step});
  }

  ParamStore params_;
};

TEST_F(MuonTest, StepsAlongTheOrthogonalizedMomentumOfEachMatrix) {
  const ParamId wide = declare("wide", {5, 12}), tall = declare("tall", {12, 5}),
                filters = declare("filters", {6, 3, 3, 2}),
                grouped = declare("grouped", {20, 6}, 0, 3, 3);
  allocate();
  struct Part {
    ParamId id;
    std::int64_t first, rows, columns;
  };
  const std::vector<Part> parts{{wide, 0, 5, 12},    {tall, 0, 12, 5},    {filters, 0, 6, 18},
                                {grouped, 0, 12, 6}, {grouped, 72, 4, 6}, {grouped, 96, 4, 6}};
  std::vector<std::vector<float>> before;
  for (const Part& part : parts)
    before.push_back(values_of<float>(params_.master(part.id)));
  Optimizer optimizer(
      *device_, params_,
      {.config = {.name = OptimizerKind::muon, .weight_decay = 0.5, .momentum = 0.9}});

  run(optimizer, 0);
  run(optimizer, 1);

  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& [id, first, rows, columns] = parts[p];
    std::vector<double> momentum(static_cast<std::size_t>(rows * columns)), weights(momentum);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = before[p][static_cast<std::size_t>(first) + i];
    for (int step = 0; step < 2; ++step) {
      Matrix direction = zeros(rows, columns);
      for (std::size_t i = 0; i < momentum.size(); ++i) {
        const double g = static_cast<float>(
            std::sin(static_cast<double>(7 * (first + static_cast<std::int64_t>(i)) + 3 * step)));
        momentum[i] = 0.9 * momentum[i] + g;
        direction.values[i] = g + 0.9 * momentum[i];
      }
      direction = newton_schulz(std::move(direction));
      const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] -= 0.1 * (size * direction.values[i] + 0.5 * weights[i]);
    }
    const auto after = values_of<float>(params_.master(id));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NEAR(after[static_cast<std::size_t>(first) + i], weights[i], 2e-4)
          << params_.layout().spec(id).name << " " << first << " + " << i;
    }
  }
}

TEST_F(MuonTest, GivesEverySingularValueAboutOne) {
  const ParamId id = declare("w", {8, 30});
  allocate();
  // No weight decay and a rate of 1: the difference is the direction.
  const auto before = values_of<float>(params_.master(id));
  Optimizer optimizer(*device_, params_,
                      {.config = {.name = OptimizerKind::muon, .weight_decay = 0}});
  run(optimizer, 0);

  Matrix step = zeros(8, 30);
  const auto after = values_of<float>(params_.master(id));
  for (std::size_t i = 0; i < after.size(); ++i)
    step.values[i] = (before[i] - after[i]) / (0.1 * 0.2 * std::sqrt(30.0));
  const Matrix gram = product(step, transposed(step));
  double trace = 0;
  for (std::int64_t i = 0; i < 8; ++i)
    trace += gram.at(i, i);
  // The published coefficients map singular values to about (0.7, 1.2); sines have rank 2.
  EXPECT_GT(trace, 2 * 0.49);
  EXPECT_LT(trace, 2 * 1.44);
}

TEST_F(MuonTest, LeavesParametersThatAreNoHiddenMatrixToAdamW) {
  const ParamId hidden = declare("w", {4, 4});
  const ParamId table =
      params_.declare({.name = "table", .shape = {4, 4}, .init = Init::normal(1), .matrix = true});
  allocate();
  const auto before = values_of<float>(params_.master(table));
  Optimizer optimizer(*device_, params_,
                      {.config = {.name = OptimizerKind::muon, .weight_decay = 0}});

  run(optimizer, 0);

  const auto after = values_of<float>(params_.master(table));
  for (std::size_t i = 1; i < after.size(); ++i)  // the first gradient is sin(0)
    EXPECT_NEAR(std::abs(after[i] - before[i]), 0.1F, 1e-5F);
  EXPECT_EQ(values_of<float>(optimizer.first_moments()).size(),
            static_cast<std::size_t>(params_.layout().owned_elements()));
  EXPECT_NE(values_of<float>(params_.master(hidden)), before);
}

TEST_F(MuonTest, AMatrixWithoutGradientOnlyDecays) {
  const ParamId id = declare("w", {3, 7});
  allocate();
  const auto before = values_of<float>(params_.master(id));
  Optimizer optimizer(*device_, params_,
                      {.config = {.name = OptimizerKind::muon, .weight_decay = 0.5}});
  const Tensor gradients = params_.gradients().whole();
  std::fill_n(gradients.as<float>(), gradients.count(), 0.0F);

  optimizer.prepare(0, 0.1);
  optimizer.step(*compute_, {});

  const auto after = values_of<float>(params_.master(id));
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], 0.95F * before[i], 1e-6F);
}

}  // namespace
}  // namespace trireme
