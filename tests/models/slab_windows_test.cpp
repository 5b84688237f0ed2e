// SPDX-License-Identifier: Apache-2.0
// Convolutions of samples that all ranks share, against the op on whole samples.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "models/spatial/sample_gather.h"
#include "models/spatial/slab_sum.h"
#include "models/spatial/slab_windows.h"
#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

struct Geometry {
  const char* name;
  Shape x;
  std::int64_t outputs;
  Windows windows;
};
void PrintTo(const Geometry& geometry, std::ostream* out) {
  *out << geometry.name;
}

const std::vector<Geometry> geometries{
    {"VolumeOfOddExtents", {2, 7, 9, 5, 3}, 4, {.window = 3, .padding = 1}},
    {"EvenWindow", {1, 8, 9, 11, 2}, 3, {.window = {2, 4, 2}, .padding = {0, 2, 1}}},
    {"StridesBesideWindows", {1, 9, 13, 8, 2}, 3, {.window = 3, .stride = 2, .padding = 1}},
    {"StridesPastWindows", {1, 10, 11, 9, 2}, 3, {.window = 1, .stride = 2}},
    {"WideWindowOfAnImage", {2, 17, 19, 3}, 4, {.window = 7, .stride = 2, .padding = 3}},
    {"DilationPastSlabs", {1, 23, 26, 2}, 3, {.window = 3, .padding = 18, .dilation = 18}},
    {"ResultTooSmallToBeCut", {1, 9, 9, 9, 2}, 3, {.window = 3, .stride = 4, .padding = 1}},
    {"SampleTooSmallToBeCut", {1, 1, 3, 3, 2}, 3, {.window = 1, .padding = {4, 3, 3}}},
};

std::vector<SpatialSplit> splits_of(int ranks) {
  std::vector<SpatialSplit> splits;
  for (const SpatialExtents& grid :
       {SpatialExtents{1, 1, 1}, SpatialExtents{1, 2, 1}, SpatialExtents{1, 1, 2},
        SpatialExtents{1, 2, 2}, SpatialExtents{1, 4, 1}, SpatialExtents{2, 1, 1},
        SpatialExtents{2, 2, 1}, SpatialExtents{1, 3, 1}}) {
    if (grid[0] * grid[1] * grid[2] != ranks) continue;
    splits.push_back({.ranks = grid, .slabs = grid});
    splits.push_back({.ranks = grid, .slabs = {grid[0], 2 * grid[1], grid[2]}});
  }
  return splits;
}

// Random values that are the same on all ranks.
class Values {
 public:
  Values(Device& device, const Shape& shape, unsigned seed)
      : buffer_(device, static_cast<std::size_t>(shape.count()) * sizeof(float),
                MemoryKind::device),
        tensor_(buffer_.view(DType::f32, shape)) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < shape.count(); ++i)
      tensor_.as<float>()[i] = normal(engine);
  }
  [[nodiscard]] const Tensor& operator*() const { return tensor_; }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

class SlabWindowsTest : public test::MpiTest, public testing::WithParamInterface<Geometry> {
 protected:
  struct Results {
    std::vector<float> y, dx, dw;
  };

  // y, dx and dw of random x, w and dy, whole.
  Results run(const SpatialSplit& split) {
    const Geometry& g = GetParam();
    const auto [window, stride, padding, dilation, whole] = g.windows;
    const ops::ConvolutionOptions options{stride, padding, dilation};
    std::vector<std::int64_t> extents{g.outputs};
    for (std::size_t axis = 5 - g.x.rank(); axis < 3; ++axis)
      extents.push_back(window[axis]);
    extents.push_back(g.x.back());
    const Shape w_shape(extents), y_shape = ops::convolution_output_shape(g.x, w_shape, options);

    const BuildOptions build{.training = true, .spatial = split};
    ParamStore params;
    Blueprint blueprint(params, DeviceType::cpu, build);
    const ParamId weight = blueprint.parameter({.name = "w", .shape = w_shape, .matrix = true});
    const Activation x_held = blueprint.keep(g.x), dx_held = blueprint.keep(g.x),
                     y_held = blueprint.keep(y_shape), dy_held = blueprint.keep(y_shape);
    const SlabWindows windows(blueprint, g.x, y_shape, g.windows, DType::f32, /*keep=*/true);
    const SlabSum sum(blueprint, w_shape, windows.y().cut());
    const Activation workspace = convolution_workspace(blueprint, windows, w_shape, options);
    const SampleGather of_x(blueprint, g.x, DType::f32), of_y(blueprint, y_shape, DType::f32);
    params.allocate(device(), {.training = true});
    const Arena kept(device(), blueprint.kept_layout()),
        scratch(device(), blueprint.scratch_layout()),
        space(device(), blueprint.workspace_layout());
    const Values x(device(), g.x, 1), w(device(), w_shape, 2), dy(device(), y_shape, 3);
    std::ranges::copy(test::values_of<float>(*w), params.master(weight).as<float>());
    const Tensor gradient = params.gradient(weight);
    std::memset(gradient.data, 0, gradient.bytes());
    const TensorGroup group(device(), world(), comm_stream());
    const Batch batch;
    Context context{compute(), params, kept, scratch, space, batch};
    if (split.rank_count() > 1) context.tensor = &group;
    const auto hold = [&](const Activation& held, const Tensor& of, const SampleGather& by) {
      if (by.slabs().cut()) return by.take(context, context(held), of);
      std::memcpy(context(held).data, of.data, of.bytes());
    };
    const auto gathered = [&](const Activation& held, const Shape& shape, const SampleGather& by) {
      if (!by.slabs().cut()) return test::values_of<float>(context(held));
      const Values all(device(), shape, 9);
      by.gather(context, *all, context(held));
      compute().synchronize();
      return test::values_of<float>(*all);
    };

    hold(x_held, *x, of_x);
    hold(dy_held, *dy, of_y);
    const Tensor filters = params.compute(weight);
    windows.each_y(context, context(y_held), context(x_held), true,
                   [&](const Tensor& to, const Tensor& from, const ops::PerAxis& p, auto) {
                     ops::convolution_forward(compute(), to, from, filters,
                                              with_padding(options, p), context(workspace));
                   });
    sum.begin(context);
    windows.each_y(
        context, context(dy_held), context(x_held), false,
        [&](const Tensor& above, const Tensor& from, const ops::PerAxis& p, std::size_t i) {
          ops::convolution_backward_weight(compute(), sum.part(context, weight, i), above, from,
                                           with_padding(options, p), context(workspace));
        });
    sum.start(context, weight);
    windows.each_x(context, context(dx_held), context(dy_held),
                   [&](const Tensor& to, const Tensor& above, const ops::PerAxis& p, auto) {
                     ops::convolution_backward_input(compute(), to, above, filters,
                                                     with_padding(options, p), context(workspace));
                   });
    sum.finish(context, weight);
    compute().synchronize();
    return {gathered(y_held, y_shape, of_y), gathered(dx_held, g.x, of_x),
            test::values_of<float>(params.gradient(weight))};
  }

  static void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                          const char* what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    float largest = 0, worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(got[i] - expected[i]));
    }
    EXPECT_LE(worst, 3e-6F * largest) << what;
    EXPECT_GT(largest, 0) << what;
  }
};

TEST_P(SlabWindowsTest, ComputeWhatTheOpComputesOnWholeSamples) {
  const Results expected = run({});
  for (SpatialSplit split : splits_of(size())) {
    SCOPED_TRACE(
        fmt::format("ranks {} slabs {}", fmt::join(split.ranks, "x"), fmt::join(split.slabs, "x")));
    split.rank = rank();
    const Results got = run(split);
    expect_near(got.y, expected.y, "y");
    expect_near(got.dx, expected.dx, "dx");
    expect_near(got.dw, expected.dw, "dw");
  }
}

using SlabPartsTest = test::MpiTest;

TEST_F(SlabPartsTest, AreInTheOrderOfSlabsOnEveryRankAndPlannedAsSent) {
  const std::int64_t rows = 3, columns = 5;
  for (SpatialSplit split : splits_of(size())) {
    split.rank = rank();
    const BuildOptions build{.training = true, .spatial = split};
    ParamStore params;
    Blueprint blueprint(params, DeviceType::cpu, build);
    const Slabs slabs(split, {2, 9, 8, 7, columns});
    const SlabParts parts(blueprint, slabs, rows, columns);
    const Arena kept(device(), blueprint.kept_layout()),
        scratch(device(), blueprint.scratch_layout()),
        space(device(), blueprint.workspace_layout());
    const TensorGroup group(device(), world(), comm_stream());
    const Batch batch;
    Context context{compute(), params, kept, scratch, space, batch};
    if (size() > 1) context.tensor = &group;
    for (std::size_t i = 0; i < slabs.local().size(); ++i)
      ops::fill_constant(compute(), parts.own(context, i),
                         static_cast<float>(slabs.local()[i].box.begin[1] * 10 + rank()));

    const Tensor all = parts.gather(context);
    compute().synchronize();

    ASSERT_EQ(all.shape, (Shape{static_cast<std::int64_t>(slabs.all().size()), rows, columns}));
    std::vector<float> expected;
    for (const Slabs::Slab& slab : slabs.all())
      expected.insert(expected.end(), static_cast<std::size_t>(rows * columns),
                      static_cast<float>(slab.box.begin[1] * 10 + slab.rank));
    EXPECT_EQ(test::values_of<float>(all), expected);
    std::vector<double> planned;
    if (size() > 1) planned.push_back(static_cast<double>(all.bytes()));
    EXPECT_EQ(blueprint.traffic().gathers, planned);
  }
}

TEST(SlabWindowsTraffic, IsTheHaloOfBothPasses) {
  const std::int64_t n = 2, d = 12, h = 6, w = 4, c = 3, outputs = 5;
  const std::int64_t rows = 2;  // of a 5x5x5 window on each side
  for (const auto& [ranks, halo] :
       {std::pair{SpatialExtents{2, 1, 1}, rows * h * w},
        std::pair{SpatialExtents{3, 1, 1}, 2 * rows * h * w},  // the middle rank sends most
        std::pair{SpatialExtents{2, 2, 1}, ((d / 2) * rows + rows * (h / 2) + rows * rows) * w}}) {
    const BuildOptions build{.training = true, .spatial = {.ranks = ranks, .slabs = ranks}};
    ParamStore params;
    Blueprint blueprint(params, DeviceType::cpu, build);
    const SlabWindows windows(blueprint, {n, d, h, w, c}, {n, d, h, w, outputs},
                              {.window = 5, .padding = 2}, DType::f32, /*keep=*/true);
    const double each = 4.0 * static_cast<double>(n * halo);
    EXPECT_EQ(
        blueprint.traffic().exchanges,
        (std::vector<double>{each * static_cast<double>(c), each * static_cast<double>(outputs)}))
        << fmt::format("{}", fmt::join(ranks, "x"));
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, SlabWindowsTest, testing::ValuesIn(geometries),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace trireme
