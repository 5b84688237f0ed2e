// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution.h"

#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "tests/ops/guarded_tensor.h"

#include <algorithm>

namespace trireme {
namespace {

using namespace test;

struct Case {
  Shape x, w;
  ops::ConvolutionOptions options{};

  [[nodiscard]] Shape y() const { return ops::convolution_output_shape(x, w, options); }
  [[nodiscard]] std::int64_t taps() const { return w.count() / w[0]; }
  // Of x, w or y; the depth of images is 1.
  [[nodiscard]] static std::array<std::int64_t, 3> extents(const Shape& of) {
    return {of.rank() == 4 ? 1 : of[1], of[of.rank() - 3], of[of.rank() - 2]};
  }
};

std::string label_of(const Case& c) {
  std::string text = fmt::format("x{}_w{}_s{}_p{}_d{}_g{}", c.x.to_string(), c.w.to_string(),
                                 c.options.stride.to_string(), c.options.padding.to_string(),
                                 c.options.dilation.to_string(), c.options.groups);
  std::erase_if(text, [](char letter) { return letter == '(' || letter == ')' || letter == ' '; });
  std::ranges::replace(text, ',', 'x');
  return text;
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << label_of(c);
}

// Calls body(x index, y index, w index) for every product of output channel `o` at a window.
template <typename Body>
void for_each_tap(const Case& c, std::int64_t window, std::int64_t o, const Body& body) {
  const auto x = Case::extents(c.x), y = Case::extents(c.y()), w = Case::extents(c.w);
  const std::array<std::int64_t, 4> at{window / (y[0] * y[1] * y[2]), window / (y[1] * y[2]) % y[0],
                                       window / y[2] % y[1], window % y[2]};
  const std::int64_t taps = w[0] * w[1] * w[2], per_group = c.w.back();
  const std::int64_t group = o / (c.w[0] / c.options.groups);
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::array<std::int64_t, 3> k{tap / (w[1] * w[2]), tap / w[2] % w[1], tap % w[2]};
    std::int64_t from = at[0];
    bool inside = true;
    // Images have no options along the depth.
    for (std::size_t axis = c.x.rank() == 4 ? 1 : 0; axis < 3; ++axis) {
      const std::int64_t place = at[axis + 1] * c.options.stride[axis] +
                                 k[axis] * c.options.dilation[axis] - c.options.padding[axis];
      inside = inside && place >= 0 && place < x[axis];
      from = from * x[axis] + place;
    }
    if (!inside) continue;
    for (std::int64_t i = 0; i < per_group; ++i) {
      body(static_cast<std::size_t>(from * c.x.back() + group * per_group + i),
           static_cast<std::size_t>(window * c.w[0] + o),
           static_cast<std::size_t>((o * taps + tap) * per_group + i));
    }
  }
}

template <typename Body>
void for_each_product(const Case& c, const Body& body) {
  for (std::int64_t window = 0; window < c.y().rows(); ++window) {
    for (std::int64_t o = 0; o < c.w[0]; ++o)
      for_each_tap(c, window, o, body);
  }
}

std::vector<double> zeros(const Shape& shape) {
  return std::vector<double>(static_cast<std::size_t>(shape.count()));
}

std::vector<double> forward_reference(const Case& c, const std::vector<double>& x,
                                      const std::vector<double>& w) {
  std::vector<double> y = zeros(c.y());
  for_each_product(c,
                   [&](std::size_t xi, std::size_t yi, std::size_t wi) { y[yi] += x[xi] * w[wi]; });
  return y;
}

GuardedTensor workspace_for(const Case& c, DType dtype) {
  const std::size_t bytes =
      ops::convolution_workspace_bytes(stream().device().type(), dtype, c.x, c.w, c.options);
  return {DType::u8, {static_cast<std::int64_t>(bytes)}};
}

struct Operands {
  GuardedTensor x, w, dy, workspace;

  Operands(const Case& c, DType dtype)
      : x(random_tensor(dtype, c.x, 1)),
        w(random_tensor(dtype, c.w, 2)),
        dy(random_tensor(dtype, c.y(), 3)),
        workspace(workspace_for(c, dtype)) {}
};

class Convolution : public ::testing::TestWithParam<std::tuple<DType, Case>> {
 protected:
  DType dtype = std::get<0>(GetParam());
  Case c = std::get<1>(GetParam());

  // A sum of `terms` products, rounded to the dtype at the end.
  [[nodiscard]] double relative() const { return rounding_of(dtype); }
  [[nodiscard]] static double absolute(std::int64_t terms) {
    return sum_rounding(terms) + 4e-8 * static_cast<double>(terms);
  }
};

TEST_P(Convolution, ForwardMatchesTheReference) {
  const Operands in(c, dtype);
  const GuardedTensor y(dtype, c.y());

  ops::convolution_forward(stream(), y, in.x, in.w, c.options, in.workspace);

  expect_close(y.get(), forward_reference(c, in.x.get(), in.w.get()), relative(),
               absolute(c.taps()));
}

TEST_P(Convolution, BackwardInputMatchesTheReferenceAndOverwrites) {
  const Operands in(c, dtype);
  const GuardedTensor dx = random_tensor(dtype, c.x, 9);
  std::vector<double> expected = zeros(c.x);
  const std::vector<double> dy = in.dy.get(), w = in.w.get();
  for_each_product(
      c, [&](std::size_t xi, std::size_t yi, std::size_t wi) { expected[xi] += dy[yi] * w[wi]; });

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options, in.workspace);

  expect_close(dx.get(), expected, relative(), absolute(c.w[0] * c.taps() / c.w.back()));
}

// If cuDNN adds, the gradient is not rounded first.
TEST_P(Convolution, BackwardInputAddsAsAPassOfItsOwnWould) {
  const Operands in(c, dtype);
  const GuardedTensor addend = random_tensor(dtype, c.x, 10), dx(dtype, c.x), sum(dtype, c.x);
  ops::convolution_backward_input(stream(), sum, in.dy, in.w, c.options, in.workspace);
  ops::add_in_place(stream(), sum, addend);

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options, in.workspace, addend);
  EXPECT_EQ(dx.raw(), sum.raw());

  stream().set_policy({.fused_epilogues = true});
  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options, in.workspace, addend);
  stream().set_policy({});
  expect_close(dx.get(), sum.get(), 2 * relative(), absolute(c.w[0] * c.taps() / c.w.back()));
}

TEST_P(Convolution, BackwardWeightMatchesTheReferenceAndAccumulates) {
  const Operands in(c, dtype);
  const GuardedTensor dw = random_tensor(DType::f32, c.w, 9);
  std::vector<double> expected = dw.get();
  const std::vector<double> dy = in.dy.get(), x = in.x.get();
  for_each_product(
      c, [&](std::size_t xi, std::size_t yi, std::size_t wi) { expected[wi] += dy[yi] * x[xi]; });

  ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options, in.workspace);

  // cuDNN may round the summand of dw, which was at most 1 before.
  const bool rounded =
      stream().device().type() == DeviceType::cuda && !ops::cuda::cudnn_version().empty();
  expect_close(dw.get(), expected, rounded ? relative() : 0x1p-21,
               absolute(c.y().rows()) + (rounded ? relative() : 0.0));
}

TEST_P(Convolution, HasTheSameBitsEveryTime) {
  const Operands in(c, dtype);
  std::vector<std::vector<unsigned char>> runs;
  for (int run = 0; run < 2; ++run) {
    const GuardedTensor y(dtype, c.y()), dx(dtype, c.x), dw(DType::f32, c.w, zeros(c.w));
    ops::convolution_forward(stream(), y, in.x, in.w, c.options, in.workspace);
    ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options, in.workspace);
    ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options, in.workspace);
    for (const GuardedTensor* const result : {&y, &dx, &dw})
      runs.push_back(result->raw());
  }

  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(runs[i], runs[i + 3]);
}

const std::vector<Case> cases = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 0}},       // one product
    {{2, 5, 7, 1}, {16, 3, 3, 1}, {1, 1}},      // grey images
    {{2, 9, 8, 3}, {17, 3, 3, 3}, {2, 1}},      // colour images, an odd number of filters
    {{1, 17, 17, 3}, {33, 7, 7, 3}, {2, 3}},    // ImageNet's first layer
    {{3, 7, 7, 33}, {17, 3, 3, 33}, {1, 1}},    // odd channels
    {{2, 14, 14, 16}, {32, 3, 3, 16}, {2, 1}},  // down-sampling
    {{2, 14, 13, 16}, {32, 1, 1, 16}, {2, 0}},  // its shortcut
    {{2, 7, 7, 32}, {48, 1, 1, 32}, {1, 0}},    // a matrix product
    {{1, 3, 3, 7}, {5, 1, 1, 7}, {1, 0}},       // one with odd extents
    {{1, 1, 1, 3}, {5, 3, 3, 3}, {1, 1}},       // padding all around
    {{1, 6, 5, 8}, {8, 5, 5, 8}, {3, 2}},       // stride three
    {{2, 6, 5, 9}, {8, 2, 4, 9}, {1, 0}},       // an even, oblong kernel
    {{1, 4, 4, 8}, {8, 1, 1, 8}, {3, 0}},       // stride beyond the kernel
    {{1, 4, 5, 8}, {8, 1, 1, 8}, {1, 2}},       // padding beyond the kernel
    {{1, 5, 5, 8}, {8, 2, 2, 8}, {2, 3}},       // the same with a stride
    {{5, 4, 4, 512}, {24, 3, 3, 512}, {1, 1}},  // depth in several chunks, several strips
    {{70, 6, 6, 8}, {8, 3, 3, 8}, {1, 1}},      // many small images
    {{1, 40, 150, 24}, {8, 3, 3, 24}, {1, 1}},  // several strips of one image
    {{2, 7, 9, 6}, {5, 3, 3, 6}, {.padding = 2, .dilation = 2}},
    {{1, 13, 15, 16}, {8, 3, 3, 16}, {.padding = 6, .dilation = 6}},
    {{1, 14, 9, 5}, {4, 3, 2, 5}, {.stride = 2, .padding = {2, 1}, .dilation = {2, 3}}},
    {{1, 15, 9, 3}, {4, 3, 3, 3}, {.stride = 4, .padding = 5, .dilation = 6}},
    {{2, 7, 6, 6}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},
    {{2, 7, 6, 96}, {160, 1, 1, 48}, {.groups = 2}},  // several tiles of a group
    {{2, 9, 7, 33}, {33, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 33}},
    {{1, 9, 7, 16}, {32, 3, 3, 1}, {.padding = 2, .dilation = 2, .groups = 16}},
    {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},  // volumes
    {{2, 5, 6, 7, 4}, {32, 3, 3, 3, 4}, {.padding = 1}},
    {{1, 7, 5, 6, 19}, {17, 3, 3, 3, 19}, {.padding = 1}},
    {{2, 7, 6, 5, 8}, {16, 3, 3, 3, 8}, {.stride = 2, .padding = 1}},
    {{1, 4, 6, 5, 8}, {16, 2, 2, 2, 8}, {.stride = 2}},
    {{2, 3, 5, 4, 9}, {6, 1, 1, 1, 9}},  // planes apart
    {{2, 3, 5, 4, 9}, {6, 1, 3, 3, 9}, {.stride = {1, 2, 2}, .padding = {0, 1, 1}}},
    {{1, 5, 7, 9, 3}, {4, 2, 3, 4, 3}, {.stride = {2, 1, 3}, .padding = {0, 1, 2}}},
    {{1, 7, 8, 9, 6}, {4, 3, 3, 3, 3}, {.padding = {2, 4, 1}, .dilation = {2, 3, 1}, .groups = 2}},
    {{2, 5, 4, 6, 20}, {20, 3, 3, 3, 1}, {.padding = 1, .groups = 20}},
};

std::string case_label(const ::testing::TestParamInfo<std::tuple<DType, Case>>& info) {
  return fmt::format("{}_{}", name_of(std::get<0>(info.param)), label_of(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::ValuesIn(cases)),
                         case_label);

class ConvolutionGradients : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvolutionGradients,
    ::testing::Values(
        Case{{2, 5, 4, 3}, {2, 3, 3, 3}, {2, 1}},
        Case{{1, 7, 6, 2}, {3, 3, 3, 2}, {.padding = 2, .dilation = 2}},
        Case{{1, 13, 3, 2}, {2, 3, 1, 2}, {.stride = 2, .padding = {6, 0}, .dilation = {6, 1}}},
        Case{{1, 5, 4, 4}, {6, 3, 3, 2}, {.padding = 1, .groups = 2}},
        Case{{1, 5, 4, 5}, {5, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 5}},
        Case{{2, 3, 4, 3, 2}, {3, 3, 3, 3, 2}, {.padding = 1}},
        Case{{1, 5, 3, 4, 3}, {2, 3, 3, 3, 3}, {.stride = 2, .padding = 1}},
        Case{{1, 3, 2, 3, 4}, {3, 1, 1, 1, 4}},
        Case{{1, 5, 6, 5, 4}, {4, 3, 3, 3, 1}, {.padding = 2, .dilation = 2, .groups = 4}}),
    [](const auto& info) { return label_of(info.param); });

TEST_P(ConvolutionGradients, AgreeWithFiniteDifferencesOfTheReference) {
  const Case& c = GetParam();
  const Operands in(c, DType::f32);
  const std::vector<double> dy = in.dy.get();
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w) {
    const std::vector<double> y = forward_reference(c, x, w);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += y[i] * dy[i];
    return sum;
  };
  const GuardedTensor dx(DType::f32, c.x), dw(DType::f32, c.w, zeros(c.w));

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options, in.workspace);
  ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options, in.workspace);

  const std::vector<double> x = in.x.get(), w = in.w.get();
  expect_close(dx.get(), numeric_gradient(x, [&](const auto& moved) { return loss(moved, w); }), 0,
               1e-5);
  expect_close(dw.get(), numeric_gradient(w, [&](const auto& moved) { return loss(x, moved); }), 0,
               1e-5);
}

// The path of processors with native bf16, here in f32.
TEST(ConvolutionByDnnl, AgreesWithTheDirectPath) {
  if (stream().device().type() != DeviceType::cpu) GTEST_SKIP() << "oneDNN runs on the CPU";
  for (const Case& c :
       {Case{{2, 9, 8, 3}, {17, 3, 3, 3}, {2, 1}}, Case{{2, 7, 7, 16}, {24, 1, 1, 16}}}) {
    const Operands in(c, DType::f32);
    const ops::ConvolutionGeometry g(c.x, c.w, c.options);
    const auto bytes = static_cast<std::int64_t>(ops::cpu::by_dnnl::workspace_bytes(DType::f32, g));
    const GuardedTensor workspace(DType::u8, {bytes});
    const GuardedTensor y(DType::f32, c.y()), dx(DType::f32, c.x),
        dw = random_tensor(DType::f32, c.w, 5);
    const GuardedTensor y2(DType::f32, c.y()), dx2(DType::f32, c.x),
        dw2 = random_tensor(DType::f32, c.w, 5);
    const auto data = [](const GuardedTensor& tensor) { return tensor.view().data; };

    ops::cpu::by_dnnl::forward(DType::f32, g, data(y), data(in.x), data(in.w), data(workspace));
    ops::cpu::by_dnnl::backward_input(DType::f32, g, data(dx), data(in.dy), data(in.w),
                                      data(workspace));
    ops::cpu::by_dnnl::backward_weight(DType::f32, g, dw.view().as<float>(), data(in.dy),
                                       data(in.x), data(workspace));
    ops::convolution_forward(stream(), y2, in.x, in.w, c.options, in.workspace);
    ops::convolution_backward_input(stream(), dx2, in.dy, in.w, c.options, in.workspace);
    ops::convolution_backward_weight(stream(), dw2, in.dy, in.x, c.options, in.workspace);

    expect_close(y.get(), y2.get(), 1e-5, 1e-5);
    expect_close(dx.get(), dx2.get(), 1e-5, 1e-5);
    expect_close(dw.get(), dw2.get(), 1e-5, 1e-5);
  }
}

TEST(ConvolutionErrors, NameBothShapes) {
  const Case c{{1, 5, 5, 3}, {4, 3, 3, 3}, {1, 1}};
  const Operands in(c, DType::f32);
  const GuardedTensor wrong(DType::f32, {1, 5, 5, 5}), y(DType::f32, c.y());

  expect_error(
      [&] { ops::convolution_forward(stream(), wrong, in.x, in.w, c.options, in.workspace); },
      {"convolution_forward", "(1, 5, 5, 5)", "(1, 5, 5, 4)"});
  expect_error([&] { ops::convolution_forward(stream(), y, wrong, in.w, c.options, in.workspace); },
               {"(1, 5, 5, 5)", "(4, 3, 3, 3)"});
  expect_error(
      [&] {
        (void)ops::convolution_output_shape({1, 2, 2, 3}, {4, 3, 3, 3}, {1, 0});
      },
      {"(1, 2, 2, 3)", "(3, 3)", "smaller"});
  const auto refuse = [](const Case& wrong_case, const std::vector<std::string>& parts) {
    expect_error([&] { (void)wrong_case.y(); }, parts);
  };
  refuse({{1, 6, 9, 9, 3}, {4, 3, 3, 3, 3}, {.dilation = 3}},
         {"(1, 6, 9, 9, 3)", "window (3, 3, 3)", "dilation 3", "smaller"});
  refuse({{1, 5, 5, 6}, {4, 3, 3, 2}, {.groups = 3}}, {"3 groups", "(4, 3, 3, 2)"});
  refuse({{1, 5, 5, 7}, {4, 3, 3, 3}, {.groups = 2}}, {"(1, 5, 5, 7)", "2 groups"});
  refuse({{1, 5, 5, 3}, {4, 3, 3, 3}, {.stride = {1, 1, 1}}},
         {"stride (1, 1, 1)", "one number or 2"});
  expect_error([&] { (void)ops::convolution_output_shape(c.x, c.w, {0, 0}); }, {"stride 0"});
}

TEST(ConvolutionErrors, AskForEnoughWorkspace) {
  const Case c{{1, 5, 5, 3}, {4, 3, 3, 3}, {1, 1}};
  const Operands in(c, DType::f32);
  const GuardedTensor y(DType::f32, c.y()), small(DType::u8, {16});

  expect_error([&] { ops::convolution_forward(stream(), y, in.x, in.w, c.options, small); },
               {"workspace of 16 bytes"});
  expect_error([&] { ops::convolution_forward(stream(), y, in.x, in.w, c.options, {}); },
               {"workspace is absent"});
}

TEST(ConvolutionErrors, RefuseSharedMemory) {
  const Case c{{1, 4, 4, 8}, {8, 1, 1, 8}};
  const Operands in(c, DType::f32);

  expect_error(
      [&] { ops::convolution_forward(stream(), in.x, in.x, in.w, c.options, in.workspace); },
      {"y", "x", "shares memory"});
}

}  // namespace
}  // namespace trireme
