// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution.h"

#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

struct Case {
  std::int64_t batch, height, width, in, out, kernel_height, kernel_width, stride, padding;

  [[nodiscard]] Shape x() const { return {batch, height, width, in}; }
  [[nodiscard]] Shape w() const { return {out, kernel_height, kernel_width, in}; }
  [[nodiscard]] ops::ConvolutionOptions options() const { return {stride, padding}; }
  [[nodiscard]] Shape y() const { return ops::convolution_output_shape(x(), w(), options()); }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "x" << c.x().to_string() << " w" << c.w().to_string() << " stride " << c.stride
             << " padding " << c.padding;
}

// Calls body(x index, y index, w index) for every product of the convolution.
template <typename Body>
void for_each_product(const Case& c, const Body& body) {
  const Shape y = c.y();
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t oh = 0; oh < y[1]; ++oh) {
      for (std::int64_t ow = 0; ow < y[2]; ++ow) {
        for (std::int64_t kh = 0; kh < c.kernel_height; ++kh) {
          for (std::int64_t kw = 0; kw < c.kernel_width; ++kw) {
            const std::int64_t h = oh * c.stride + kh - c.padding;
            const std::int64_t w = ow * c.stride + kw - c.padding;
            if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
            for (std::int64_t o = 0; o < c.out; ++o) {
              for (std::int64_t i = 0; i < c.in; ++i) {
                body(static_cast<std::size_t>(((n * c.height + h) * c.width + w) * c.in + i),
                     static_cast<std::size_t>(((n * y[1] + oh) * y[2] + ow) * c.out + o),
                     static_cast<std::size_t>(
                         ((o * c.kernel_height + kh) * c.kernel_width + kw) * c.in + i));
              }
            }
          }
        }
      }
    }
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
      ops::convolution_workspace_bytes(stream().device().type(), dtype, c.x(), c.w(), c.options());
  return {DType::u8, {static_cast<std::int64_t>(bytes)}};
}

struct Operands {
  GuardedTensor x, w, dy, workspace;

  Operands(const Case& c, DType dtype)
      : x(random_tensor(dtype, c.x(), 1)),
        w(random_tensor(dtype, c.w(), 2)),
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
    return sum_rounding(terms) + 2e-8 * static_cast<double>(terms);
  }
};

TEST_P(Convolution, ForwardMatchesTheReference) {
  const Operands in(c, dtype);
  const GuardedTensor y(dtype, c.y());

  ops::convolution_forward(stream(), y, in.x, in.w, c.options(), in.workspace);

  expect_close(y.get(), forward_reference(c, in.x.get(), in.w.get()), relative(),
               absolute(c.in * c.kernel_height * c.kernel_width));
}

TEST_P(Convolution, BackwardInputMatchesTheReferenceAndOverwrites) {
  const Operands in(c, dtype);
  const GuardedTensor dx = random_tensor(dtype, c.x(), 9);
  std::vector<double> expected = zeros(c.x());
  const std::vector<double> dy = in.dy.get(), w = in.w.get();
  for_each_product(
      c, [&](std::size_t xi, std::size_t yi, std::size_t wi) { expected[xi] += dy[yi] * w[wi]; });

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options(), in.workspace);

  expect_close(dx.get(), expected, relative(), absolute(c.out * c.kernel_height * c.kernel_width));
}

// If cuDNN adds, the gradient is not rounded first.
TEST_P(Convolution, BackwardInputAddsAsAPassOfItsOwnWould) {
  const Operands in(c, dtype);
  const GuardedTensor addend = random_tensor(dtype, c.x(), 10), dx(dtype, c.x()), sum(dtype, c.x());
  ops::convolution_backward_input(stream(), sum, in.dy, in.w, c.options(), in.workspace);
  ops::add_in_place(stream(), sum, addend);

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options(), in.workspace, addend);
  EXPECT_EQ(dx.raw(), sum.raw());

  stream().set_policy({.fused_epilogues = true});
  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options(), in.workspace, addend);
  stream().set_policy({});
  expect_close(dx.get(), sum.get(), 2 * relative(),
               absolute(c.out * c.kernel_height * c.kernel_width));
}

TEST_P(Convolution, BackwardWeightMatchesTheReferenceAndAccumulates) {
  const Operands in(c, dtype);
  const GuardedTensor dw = random_tensor(DType::f32, c.w(), 9);
  std::vector<double> expected = dw.get();
  const std::vector<double> dy = in.dy.get(), x = in.x.get();
  for_each_product(
      c, [&](std::size_t xi, std::size_t yi, std::size_t wi) { expected[wi] += dy[yi] * x[xi]; });

  ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options(), in.workspace);

  // cuDNN may round the summand of dw, which was at most 1 before.
  const bool rounded =
      stream().device().type() == DeviceType::cuda && !ops::cuda::cudnn_version().empty();
  expect_close(dw.get(), expected, rounded ? relative() : 0x1p-21,
               absolute(c.batch * c.y()[1] * c.y()[2]) + (rounded ? relative() : 0.0));
}

TEST_P(Convolution, HasTheSameBitsEveryTime) {
  const Operands in(c, dtype);
  std::vector<std::vector<unsigned char>> runs;
  for (int run = 0; run < 2; ++run) {
    const GuardedTensor y(dtype, c.y()), dx(dtype, c.x()), dw(DType::f32, c.w(), zeros(c.w()));
    ops::convolution_forward(stream(), y, in.x, in.w, c.options(), in.workspace);
    ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options(), in.workspace);
    ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options(), in.workspace);
    for (const GuardedTensor* const result : {&y, &dx, &dw})
      runs.push_back(result->raw());
  }

  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(runs[i], runs[i + 3]);
}

const std::vector<Case> cases = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0},      // one product
    {2, 5, 7, 1, 16, 3, 3, 1, 1},     // grey images
    {2, 9, 8, 3, 17, 3, 3, 2, 1},     // colour images, an odd number of filters
    {1, 17, 17, 3, 33, 7, 7, 2, 3},   // ImageNet's first layer
    {3, 7, 7, 33, 17, 3, 3, 1, 1},    // odd channels
    {2, 14, 14, 16, 32, 3, 3, 2, 1},  // down-sampling
    {2, 14, 13, 16, 32, 1, 1, 2, 0},  // its shortcut
    {2, 7, 7, 32, 48, 1, 1, 1, 0},    // a matrix product
    {1, 3, 3, 7, 5, 1, 1, 1, 0},      // one with odd extents
    {1, 1, 1, 3, 5, 3, 3, 1, 1},      // padding all around
    {1, 6, 5, 8, 8, 5, 5, 3, 2},      // stride three
    {2, 6, 5, 9, 8, 2, 4, 1, 0},      // an even, oblong kernel
    {1, 4, 4, 8, 8, 1, 1, 3, 0},      // stride beyond the kernel
    {1, 4, 5, 8, 8, 1, 1, 1, 2},      // padding beyond the kernel
    {1, 5, 5, 8, 8, 2, 2, 2, 3},      // the same with a stride
    {5, 4, 4, 512, 24, 3, 3, 1, 1},   // depth in several chunks, several strips
    {70, 6, 6, 8, 8, 3, 3, 1, 1},     // many small images
    {1, 40, 150, 24, 8, 3, 3, 1, 1},  // several strips of one image
};

std::string case_label(const ::testing::TestParamInfo<std::tuple<DType, Case>>& info) {
  const Case& c = std::get<1>(info.param);
  return fmt::format("{}_n{}_{}x{}x{}_o{}_k{}x{}_s{}_p{}", name_of(std::get<0>(info.param)),
                     c.batch, c.height, c.width, c.in, c.out, c.kernel_height, c.kernel_width,
                     c.stride, c.padding);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::ValuesIn(cases)),
                         case_label);

TEST(ConvolutionGradients, AgreeWithFiniteDifferencesOfTheReference) {
  const Case c{2, 5, 4, 3, 2, 3, 3, 2, 1};
  const Operands in(c, DType::f32);
  const std::vector<double> dy = in.dy.get();
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w) {
    const std::vector<double> y = forward_reference(c, x, w);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += y[i] * dy[i];
    return sum;
  };
  const GuardedTensor dx(DType::f32, c.x()), dw(DType::f32, c.w(), zeros(c.w()));

  ops::convolution_backward_input(stream(), dx, in.dy, in.w, c.options(), in.workspace);
  ops::convolution_backward_weight(stream(), dw, in.dy, in.x, c.options(), in.workspace);

  const std::vector<double> x = in.x.get(), w = in.w.get();
  expect_close(dx.get(), numeric_gradient(x, [&](const auto& moved) { return loss(moved, w); }), 0,
               1e-5);
  expect_close(dw.get(), numeric_gradient(w, [&](const auto& moved) { return loss(x, moved); }), 0,
               1e-5);
}

// The path of processors with native bf16, here in f32.
TEST(ConvolutionByDnnl, AgreesWithTheDirectPath) {
  if (stream().device().type() != DeviceType::cpu) GTEST_SKIP() << "oneDNN runs on the CPU";
  for (const Case& c : {Case{2, 9, 8, 3, 17, 3, 3, 2, 1}, Case{2, 7, 7, 16, 24, 1, 1, 1, 0}}) {
    const Operands in(c, DType::f32);
    const ops::ConvolutionGeometry g(c.x(), c.w(), c.options());
    const auto bytes = static_cast<std::int64_t>(ops::cpu::by_dnnl::workspace_bytes(DType::f32, g));
    const GuardedTensor workspace(DType::u8, {bytes});
    const GuardedTensor y(DType::f32, c.y()), dx(DType::f32, c.x()),
        dw = random_tensor(DType::f32, c.w(), 5);
    const GuardedTensor y2(DType::f32, c.y()), dx2(DType::f32, c.x()),
        dw2 = random_tensor(DType::f32, c.w(), 5);
    const auto data = [](const GuardedTensor& tensor) { return tensor.view().data; };

    ops::cpu::by_dnnl::forward(DType::f32, g, data(y), data(in.x), data(in.w), data(workspace));
    ops::cpu::by_dnnl::backward_input(DType::f32, g, data(dx), data(in.dy), data(in.w),
                                      data(workspace));
    ops::cpu::by_dnnl::backward_weight(DType::f32, g, dw.view().as<float>(), data(in.dy),
                                       data(in.x), data(workspace));
    ops::convolution_forward(stream(), y2, in.x, in.w, c.options(), in.workspace);
    ops::convolution_backward_input(stream(), dx2, in.dy, in.w, c.options(), in.workspace);
    ops::convolution_backward_weight(stream(), dw2, in.dy, in.x, c.options(), in.workspace);

    expect_close(y.get(), y2.get(), 1e-5, 1e-5);
    expect_close(dx.get(), dx2.get(), 1e-5, 1e-5);
    expect_close(dw.get(), dw2.get(), 1e-5, 1e-5);
  }
}

TEST(ConvolutionErrors, NameBothShapes) {
  const Case c{1, 5, 5, 3, 4, 3, 3, 1, 1};
  const Operands in(c, DType::f32);
  const GuardedTensor wrong(DType::f32, {1, 5, 5, 5}), y(DType::f32, c.y());

  expect_error(
      [&] { ops::convolution_forward(stream(), wrong, in.x, in.w, c.options(), in.workspace); },
      {"convolution_forward", "(1, 5, 5, 5)", "(1, 5, 5, 4)"});
  expect_error(
      [&] { ops::convolution_forward(stream(), y, wrong, in.w, c.options(), in.workspace); },
      {"(1, 5, 5, 5)", "(4, 3, 3, 3)"});
  expect_error(
      [&] {
        (void)ops::convolution_output_shape({1, 2, 2, 3}, {4, 3, 3, 3}, {1, 0});
      },
      {"(1, 2, 2, 3)", "(4, 3, 3, 3)", "smaller"});
  expect_error([&] { (void)ops::convolution_output_shape(c.x(), c.w(), {0, 0}); }, {"stride 0"});
}

TEST(ConvolutionErrors, AskForEnoughWorkspace) {
  const Case c{1, 5, 5, 3, 4, 3, 3, 1, 1};
  const Operands in(c, DType::f32);
  const GuardedTensor y(DType::f32, c.y()), small(DType::u8, {16});

  expect_error([&] { ops::convolution_forward(stream(), y, in.x, in.w, c.options(), small); },
               {"workspace of 16 bytes"});
  expect_error([&] { ops::convolution_forward(stream(), y, in.x, in.w, c.options(), {}); },
               {"workspace is absent"});
}

TEST(ConvolutionErrors, RefuseSharedMemory) {
  const Case c{1, 4, 4, 8, 8, 1, 1, 1, 0};
  const Operands in(c, DType::f32);

  expect_error(
      [&] { ops::convolution_forward(stream(), in.x, in.x, in.w, c.options(), in.workspace); },
      {"y", "x", "shares memory"});
}

}  // namespace
}  // namespace trireme
