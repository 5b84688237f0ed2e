// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/grouped_linear.h"

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;
using Bits = std::vector<unsigned char>;

using ops::F32Products;

class GroupedLinear : public TypedOp {
 protected:
  [[nodiscard]] static std::vector<F32Products> products() {
    if (GetParam() != DType::f32) return {F32Products::chains};
    return {F32Products::chains, F32Products::parts};
  }
};
INSTANTIATE_TEST_SUITE_P(Types, GroupedLinear,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

// A chain of `terms` rounds more than a tree of them.
double chain_rounding(std::int64_t terms) {
  return 4 * sum_rounding(terms);
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

GuardedTensor offsets_of(const std::vector<std::int64_t>& sizes) {
  Values offsets{0};
  for (const std::int64_t size : sizes)
    offsets.push_back(offsets.back() + static_cast<double>(size));
  return {DType::i32, {static_cast<std::int64_t>(offsets.size())}, offsets};
}

// Matrices (X, O, I) and groups of rows, of which the tensors have some more than the groups.
struct Problem {
  std::int64_t matrices, outputs, inputs;
  std::vector<std::int64_t> sizes;

  [[nodiscard]] std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes)
      sum += size;
    return sum;
  }
  // visit(row, matrix) for each row of groups [first, end).
  void each(const std::function<void(std::int64_t, std::int64_t)>& visit, std::size_t first,
            std::size_t end) const {
    std::int64_t row = 0;
    for (std::size_t g = 0; g < end; ++g) {
      for (std::int64_t i = 0; i < sizes[g]; ++i, ++row) {
        if (g >= first) visit(row, static_cast<std::int64_t>(g) % matrices);
      }
    }
  }
  void each(const std::function<void(std::int64_t, std::int64_t)>& visit) const {
    each(visit, 0, sizes.size());
  }
};

std::vector<Problem> problems() {
  return {{1, 1, 1, {1}},
          {3, 5, 7, {2, 0, 9, 0, 0, 1, 4, 3, 0}},  // three sources, three experts
          {2, 70, 33, {65, 1}},
          {4, 13, 300, {0, 0, 37, 0}},
          {2, 136, 264, {70, 5}},
          {2, 40, 16, {0, 0}},
          {2, 260, 270, {13, 70}}};
}

constexpr double untouched = 3.0;
constexpr std::int64_t spare = 3;

TEST_P(GroupedLinear, ForwardMultipliesEachGroupByItsMatrixAndLeavesOtherRowsAlone) {
  for (const Problem& p : problems()) {
    const std::int64_t all = p.rows() + spare;
    const GuardedTensor x = random_tensor(GetParam(), {all, p.inputs}, 1),
                        w = random_tensor(GetParam(), {p.matrices, p.outputs, p.inputs}, 2),
                        bias = random_tensor(DType::f32, {p.matrices, p.outputs}, 3);
    const GuardedTensor offsets = offsets_of(p.sizes);
    const Values xs = x.get(), ws = w.get(), biases = bias.get();
    for (const bool biased : {false, true}) {
      const GuardedTensor y(GetParam(), {all, p.outputs}, Values(at(all * p.outputs), untouched));
      Values expected(at(all * p.outputs), untouched);
      p.each([&](std::int64_t row, std::int64_t m) {
        for (std::int64_t o = 0; o < p.outputs; ++o) {
          double sum = biased ? biases[at(m * p.outputs + o)] : 0;
          for (std::int64_t i = 0; i < p.inputs; ++i)
            sum += xs[at(row * p.inputs + i)] * ws[at((m * p.outputs + o) * p.inputs + i)];
          expected[at(row * p.outputs + o)] = sum;
        }
      });

      for (const F32Products f32 : products()) {
        ops::grouped_forward(stream(), y, x, w, biased ? bias.view() : Tensor{}, offsets, f32);

        expect_close(y.get(), expected, relative(), chain_rounding(p.inputs));
      }
    }
  }
}

TEST_P(GroupedLinear, BackwardInputMultipliesByTheTransposedMatrix) {
  for (const Problem& p : problems()) {
    const std::int64_t all = p.rows() + spare;
    const GuardedTensor dy = random_tensor(GetParam(), {all, p.outputs}, 1),
                        w = random_tensor(GetParam(), {p.matrices, p.outputs, p.inputs}, 2);
    const GuardedTensor dx(GetParam(), {all, p.inputs}, Values(at(all * p.inputs), untouched));
    const Values dys = dy.get(), ws = w.get();
    Values expected(at(all * p.inputs), untouched);
    p.each([&](std::int64_t row, std::int64_t m) {
      for (std::int64_t i = 0; i < p.inputs; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < p.outputs; ++o)
          sum += dys[at(row * p.outputs + o)] * ws[at((m * p.outputs + o) * p.inputs + i)];
        expected[at(row * p.inputs + i)] = sum;
      }
    });

    for (const F32Products f32 : products()) {
      ops::grouped_backward_input(stream(), dx, dy, w, offsets_of(p.sizes), f32);

      expect_close(dx.get(), expected, relative(), chain_rounding(p.outputs));
    }
  }
}

TEST_P(GroupedLinear, BackwardWeightAddsTheChosenGroups) {
  for (const Problem& p : problems()) {
    const std::int64_t all = p.rows() + spare;
    const auto groups = static_cast<std::int64_t>(p.sizes.size());
    const GuardedTensor dy = random_tensor(GetParam(), {all, p.outputs}, 1),
                        x = random_tensor(GetParam(), {all, p.inputs}, 2);
    const GuardedTensor offsets = offsets_of(p.sizes);
    const Values dys = dy.get(), xs = x.get();
    for (std::int64_t first = 0; first + p.matrices <= groups; first += p.matrices) {
      const std::int64_t count = first == 0 ? groups : p.matrices;
      const GuardedTensor before = random_tensor(DType::f32, {p.matrices, p.outputs, p.inputs}, 3),
                          before_bias = random_tensor(DType::f32, {p.matrices, p.outputs}, 4);
      Values weight = before.get(), bias = before_bias.get();
      p.each(
          [&](std::int64_t row, std::int64_t m) {
            for (std::int64_t o = 0; o < p.outputs; ++o) {
              const double d = dys[at(row * p.outputs + o)];
              bias[at(m * p.outputs + o)] += d;
              for (std::int64_t i = 0; i < p.inputs; ++i)
                weight[at((m * p.outputs + o) * p.inputs + i)] += d * xs[at(row * p.inputs + i)];
            }
          },
          at(first), at(first + count));

      for (const F32Products f32 : products()) {
        const GuardedTensor dw(DType::f32, before.view().shape, before.get()),
            db(DType::f32, before_bias.view().shape, before_bias.get());

        ops::grouped_backward_weight(stream(), dw, db, dy, x, offsets, first, count, f32);

        expect_close(dw.get(), weight, 1e-6, chain_rounding(all));
        expect_close(db.get(), bias, 1e-6, chain_rounding(all));
      }
    }
  }
}

// Row `row` of a matrix.
Bits row_bits(const GuardedTensor& tensor, std::int64_t row) {
  const Bits all = tensor.raw();
  const auto size = all.size() / at(tensor.view().shape[0]);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at(row) * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

TEST_P(GroupedLinear, ARowHasTheSameBitsAloneAndInGroupsOfAnySizeAndPlace) {
  constexpr std::int64_t outputs = 50, inputs = 301, all = 340;
  const GuardedTensor w = random_tensor(GetParam(), {2, outputs, inputs}, 1),
                      bias = random_tensor(DType::f32, {2, outputs}, 2);
  const Values one_x = random_values(inputs, 3, GetParam()),
               one_dy = random_values(outputs, 4, GetParam());
  for (const F32Products f32 : products()) {
    Bits y_bits, dx_bits;
    for (const auto& [sizes, place, poisoned] :
         std::vector<std::tuple<std::vector<std::int64_t>, std::int64_t, bool>>{
             {{0, 1}, 0, false},
             {{0, 7}, 3, false},
             {{0, 33}, 32, true},
             {{2, 300}, 2, false},
             {{5, 300}, 304, true},
             {{3, 17, 0, 70}, 85, false}}) {
      Values xs = random_values(all * inputs, 5, GetParam()),
             dys = random_values(all * outputs, 6, GetParam());
      if (poisoned) {
        std::fill(xs.begin(), xs.end(), std::nan(""));
        std::fill(dys.begin(), dys.end(), std::nan(""));
      }
      std::copy(one_x.begin(), one_x.end(), xs.begin() + place * inputs);
      std::copy(one_dy.begin(), one_dy.end(), dys.begin() + place * outputs);
      const GuardedTensor x(GetParam(), {all, inputs}, xs), dy(GetParam(), {all, outputs}, dys);
      const GuardedTensor y(GetParam(), {all, outputs}), dx(GetParam(), {all, inputs});
      const GuardedTensor offsets = offsets_of(sizes);

      ops::grouped_forward(stream(), y, x, w, bias, offsets, f32);
      ops::grouped_backward_input(stream(), dx, dy, w, offsets, f32);

      if (y_bits.empty()) {
        y_bits = row_bits(y, place);
        dx_bits = row_bits(dx, place);
      }
      EXPECT_EQ(row_bits(y, place), y_bits);
      EXPECT_EQ(row_bits(dx, place), dx_bits);
    }
  }
}

TEST_P(GroupedLinear, WeightGradientsOfGroupsAddedOneByOneHaveTheBitsOfAllRowsAtOnce) {
  constexpr std::int64_t outputs = 50, inputs = 45, rows = 300;
  const GuardedTensor dy = random_tensor(GetParam(), {rows, outputs}, 1),
                      x = random_tensor(GetParam(), {rows, inputs}, 2);
  const Values before = random_values(outputs * inputs, 3, DType::f32),
               before_bias = random_values(outputs, 4, DType::f32);
  Bits weight, bias;
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {rows}, {150, 150}, {1, 0, 298, 1}, {37, 0, 0, 131, 132}}) {
    for (const bool one_call : {true, false}) {
      const GuardedTensor dw(DType::f32, {1, outputs, inputs}, before),
          db(DType::f32, {1, outputs}, before_bias);
      const GuardedTensor offsets = offsets_of(sizes);
      const auto groups = static_cast<std::int64_t>(sizes.size());

      for (std::int64_t first = 0; first < groups; first += one_call ? groups : 1)
        ops::grouped_backward_weight(stream(), dw, db, dy, x, offsets, first,
                                     one_call ? groups : 1);

      if (weight.empty()) {
        weight = dw.raw();
        bias = db.raw();
      }
      if (one_call || GetParam() == DType::f32 || stream().device().type() == DeviceType::cpu) {
        EXPECT_EQ(dw.raw(), weight);
      }
      EXPECT_EQ(db.raw(), bias);
    }
  }
}

// The rows of two matrices, each spread over `sources` groups of uneven sizes.
struct SpreadRows {
  std::vector<std::int64_t> sizes;
  Values dy, x;

  SpreadRows(const std::array<Values, 2>& dys, const std::array<Values, 2>& xs,
             std::int64_t outputs, std::int64_t inputs, std::int64_t sources) {
    for (std::int64_t source = 0; source < sources; ++source) {
      for (std::size_t m = 0; m < 2; ++m) {
        const auto rows = static_cast<std::int64_t>(dys[m].size()) / outputs;
        const std::int64_t first = rows * source * source / (sources * sources),
                           end = rows * (source + 1) * (source + 1) / (sources * sources);
        sizes.push_back(end - first);
        dy.insert(dy.end(), dys[m].begin() + first * outputs, dys[m].begin() + end * outputs);
        x.insert(x.end(), xs[m].begin() + first * inputs, xs[m].begin() + end * inputs);
      }
    }
  }
};

TEST_P(GroupedLinear, AWeightGradientHasTheSameBitsHoweverItsRowsAreSplitOverGroups) {
  for (const auto& [outputs, inputs] :
       {std::pair{std::int64_t{50}, std::int64_t{133}}, {72, 264}}) {
    for (const std::int64_t rows : {0, 1, 15, 16, 17, 33, 100}) {
      std::array<Values, 2> dys, xs;
      const GuardedTensor before = random_tensor(DType::f32, {2, outputs, inputs}, 5),
                          before_bias = random_tensor(DType::f32, {2, outputs}, 6);
      Values expected = before.get(), expected_bias = before_bias.get();
      for (std::size_t m = 0; m < 2; ++m) {
        const std::int64_t own = m == 0 ? rows : 21;
        dys[m] = random_values(own * outputs, static_cast<unsigned>(m), GetParam());
        xs[m] = random_values(own * inputs, static_cast<unsigned>(2 + m), GetParam());
        for (std::int64_t k = 0; k < own * outputs; ++k) {
          const std::int64_t row = k / outputs,
                             o = static_cast<std::int64_t>(m) * outputs + k % outputs;
          expected_bias[at(o)] += dys[m][at(k)];
          for (std::int64_t i = 0; i < inputs; ++i)
            expected[at(o * inputs + i)] += dys[m][at(k)] * xs[m][at(row * inputs + i)];
        }
      }
      Bits weight, bias;
      for (const std::int64_t sources : {1, 2, 4}) {
        const SpreadRows spread(dys, xs, outputs, inputs, sources);
        const std::int64_t all = rows + 21;
        const GuardedTensor dy(GetParam(), {all, outputs}, spread.dy),
            x(GetParam(), {all, inputs}, spread.x),
            dw(DType::f32, {2, outputs, inputs}, before.get()),
            db(DType::f32, {2, outputs}, before_bias.get());

        ops::grouped_backward_weight(stream(), dw, db, dy, x, offsets_of(spread.sizes), 0,
                                     2 * sources);

        if (sources == 1) {
          weight = dw.raw();
          bias = db.raw();
        }
        EXPECT_EQ(dw.raw(), weight);
        EXPECT_EQ(db.raw(), bias);
        expect_close(dw.get(), expected, 1e-6, chain_rounding(all));
        expect_close(db.get(), expected_bias, 1e-6, chain_rounding(all));
      }
    }
  }
}

TEST_P(GroupedLinear, OnACpuAResultIsOneChainOfMultiplyAdds) {
  if (stream().device().type() != DeviceType::cpu) GTEST_SKIP() << "a promise of the CPU";
#if !defined(__FMA__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "this build has no fused multiply-add";
#endif
  constexpr std::int64_t outputs = 270, inputs = 530, rows = 400;
  const auto floats = [&](const Shape& shape, unsigned seed, DType dtype) {
    const Values values = random_values(shape.count(), seed, dtype);
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> x = floats({rows, inputs}, 1, GetParam()),
                           w = floats({outputs, inputs}, 2, GetParam()),
                           dy = floats({rows, outputs}, 3, GetParam()),
                           before = floats({outputs, inputs}, 4, DType::f32);
  // The sum over k < count of a(k) * b(k), from `sum` on.
  const auto chain = [](std::int64_t count, float sum, const auto& a, const auto& b) {
    for (std::int64_t k = 0; k < count; ++k)
      sum = std::fma(a(k), b(k), sum);
    return sum;
  };
  const auto along = [](const std::vector<float>& values, std::int64_t first, std::int64_t step) {
    return [&values, first, step](std::int64_t k) { return values[at(first + k * step)]; };
  };
  Values y_chain, dx_chain, dw_chain;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t o = 0; o < outputs; ++o)
      y_chain.push_back(rounded_to(
          GetParam(), chain(inputs, 0, along(x, row * inputs, 1), along(w, o * inputs, 1))));
    for (std::int64_t i = 0; i < inputs; ++i)
      dx_chain.push_back(rounded_to(
          GetParam(), chain(outputs, 0, along(dy, row * outputs, 1), along(w, i, inputs))));
  }
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i)
      dw_chain.push_back(static_cast<double>(
          chain(rows, before[at(o * inputs + i)], along(dy, o, outputs), along(x, i, inputs))));
  }
  const auto tensor = [&](const Shape& shape, const std::vector<float>& values) {
    return GuardedTensor(GetParam(), shape, Values(values.begin(), values.end()));
  };
  const GuardedTensor xs = tensor({rows, inputs}, x), ws = tensor({1, outputs, inputs}, w),
                      dys = tensor({rows, outputs}, dy), y(GetParam(), {rows, outputs}),
                      dx(GetParam(), {rows, inputs}), offsets = offsets_of({rows});
  const GuardedTensor dw(DType::f32, {1, outputs, inputs}, Values(before.begin(), before.end()));

  ops::grouped_forward(stream(), y, xs, ws, {}, offsets);
  ops::grouped_backward_input(stream(), dx, dys, ws, offsets);
  ops::grouped_backward_weight(stream(), dw, {}, dys, xs, offsets, 0, 1);

  EXPECT_EQ(dw.get(), dw_chain);
  if (GetParam() == DType::bf16 && stream().device().has_native_bf16()) return;  // may be AMX
  EXPECT_EQ(y.get(), y_chain);
  EXPECT_EQ(dx.get(), dx_chain);
}

TEST_P(GroupedLinear, GradientsOfSlotsAreTakenBeforeRowsAreWeighted) {
  for (const bool biased : {false, true}) {
    constexpr std::int64_t outputs = 70, inputs = 37, rows = 12, used = 10;
    const std::vector<std::int64_t> sizes{4, 0, 1, 5};
    const GuardedTensor x = random_tensor(GetParam(), {rows, inputs}, 1),
                        weights = random_tensor(DType::f32, {rows}, 2),
                        bias = random_tensor(DType::f32, {2, outputs}, 3);
    const GuardedTensor dx = random_tensor(GetParam(), {rows, inputs}, 4),
                        dy = random_tensor(GetParam(), {rows, outputs}, 5);
    const GuardedTensor dweights(DType::f32, {rows}, Values(at(rows), untouched));
    Values dxs = dx.get(), dys = dy.get(), expected(at(rows), untouched);
    const Values xs = x.get(), factors = weights.get(), biases = bias.get();
    const Problem p{2, outputs, inputs, sizes};
    ASSERT_EQ(p.rows(), used);
    p.each([&](std::int64_t row, std::int64_t m) {
      double sum = 0;
      for (std::int64_t i = 0; i < inputs; ++i) {
        sum += dxs[at(row * inputs + i)] * xs[at(row * inputs + i)];
        dxs[at(row * inputs + i)] *= factors[at(row)];
      }
      for (std::int64_t o = 0; o < outputs; ++o) {
        if (biased) sum += dys[at(row * outputs + o)] * biases[at(m * outputs + o)];
        dys[at(row * outputs + o)] *= factors[at(row)];
      }
      expected[at(row)] = sum;
    });

    ops::grouped_backward_slots(stream(), dweights, dx, dy, x, weights,
                                biased ? bias.view() : Tensor{}, offsets_of(sizes));

    expect_close(dweights.get(), expected, 1e-6, sum_rounding(inputs + outputs));
    expect_close(dx.get(), dxs, relative(), 1e-7);
    expect_close(dy.get(), dys, relative(), 1e-7);
  }
}

TEST_P(GroupedLinear, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {6, 4}), y(GetParam(), {6, 5}), w(GetParam(), {2, 5, 4});
  const GuardedTensor dw(DType::f32, {2, 5, 4}), narrow(GetParam(), {6, 3});
  const GuardedTensor two = offsets_of({1, 2}), three = offsets_of({1, 2, 3});

  expect_error([&] { ops::grouped_forward(stream(), y, narrow, w, {}, two); },
               {"grouped_forward", "x", "(6, 3)", "(6, 4)"});
  expect_error([&] { ops::grouped_backward_input(stream(), x, y, w, three); },
               {"offsets", "(4)", "2 matrices"});
  expect_error([&] { ops::grouped_backward_weight(stream(), dw, {}, y, x, two, 1, 2); },
               {"2 groups from 1 on", "within 2 groups"});
}

}  // namespace
}  // namespace trireme
