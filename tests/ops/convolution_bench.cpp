// SPDX-License-Identifier: Apache-2.0
// A benchmark, run by hand: every convolution of ResNet-18, ResNet-50 (images of 224 x 224) and
// configs/resnet_fashion.yaml in f32 on one core, by our direct kernels and by the linked oneDNN,
// alternating. Prints milliseconds, the best of several, for forward, input gradient and weight
// gradient, and how often each is faster by 10 %.
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/ops/common/dnnl_cpu.h"
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"

namespace trireme::ops::cpu {
namespace {

struct Layer {
  std::int64_t batch, size, in, out, kernel, stride;
};

// clang-format off
constexpr std::array layers{
    Layer{64, 28, 1, 16, 3, 1},    Layer{64, 28, 16, 16, 3, 1},   Layer{64, 28, 16, 32, 3, 2},
    Layer{64, 28, 16, 32, 1, 2},   Layer{64, 14, 32, 32, 3, 1},   Layer{64, 14, 32, 64, 3, 2},
    Layer{64, 14, 32, 64, 1, 2},   Layer{64, 7, 64, 64, 3, 1},
    Layer{8, 224, 3, 64, 7, 2},    Layer{8, 56, 64, 64, 3, 1},    Layer{8, 56, 64, 128, 3, 2},
    Layer{8, 56, 64, 128, 1, 2},   Layer{8, 28, 128, 128, 3, 1},  Layer{8, 28, 128, 256, 3, 2},
    Layer{8, 28, 128, 256, 1, 2},  Layer{8, 14, 256, 256, 3, 1},  Layer{8, 14, 256, 512, 3, 2},
    Layer{8, 14, 256, 512, 1, 2},  Layer{8, 7, 512, 512, 3, 1},
    Layer{8, 56, 64, 64, 1, 1},    Layer{8, 56, 64, 256, 1, 1},   Layer{8, 56, 256, 64, 1, 1},
    Layer{8, 56, 256, 128, 1, 1},  Layer{8, 56, 128, 128, 3, 2},  Layer{8, 56, 256, 512, 1, 2},
    Layer{8, 28, 128, 512, 1, 1},  Layer{8, 28, 512, 128, 1, 1},  Layer{8, 28, 512, 256, 1, 1},
    Layer{8, 28, 256, 256, 3, 2},  Layer{8, 28, 512, 1024, 1, 2}, Layer{8, 14, 256, 1024, 1, 1},
    Layer{8, 14, 1024, 256, 1, 1}, Layer{8, 14, 1024, 512, 1, 1}, Layer{8, 14, 512, 512, 3, 2},
    Layer{8, 14, 1024, 2048, 1, 2}, Layer{8, 7, 512, 2048, 1, 1}, Layer{8, 7, 2048, 512, 1, 1}};
// clang-format on

std::vector<float> numbers(std::int64_t count) {
  std::minstd_rand engine(1);
  std::vector<float> values(static_cast<std::size_t>(count) + 16);
  for (float& value : values)
    value = static_cast<float>(engine() % 1024) / 512.0F - 1.0F;
  return values;
}

struct Best {
  double ours = 1e9;
  double library = 1e9;
};

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Best compare(const std::function<void()>& ours, const std::function<void()>& library) {
  // Builds of oneDNN for SYCL return before the work is done.
  const auto finished = [&] {
    library();
    dnnl::stream(dnnl_stream()).wait();
  };
  ours();
  finished();
  Best best;
  for (int round = 0; round < 7; ++round) {
    best.ours = std::min(best.ours, milliseconds(ours));
    best.library = std::min(best.library, milliseconds(finished));
  }
  return best;
}

int run() {
  std::array<int, 3> wins{};  // ours, neither, the library
  for (const Layer& layer : layers) {
    const Shape x_shape{layer.batch, layer.size, layer.size, layer.in};
    const Shape w_shape{layer.out, layer.kernel, layer.kernel, layer.in};
    const ConvolutionGeometry g(x_shape, w_shape,
                                {.stride = layer.stride, .padding = layer.kernel / 2});
    const PlaneGeometry planes(g);
    const auto x = numbers(x_shape.count());
    const auto w = numbers(w_shape.count());
    auto dx = numbers(x_shape.count());
    auto dw = numbers(w_shape.count());
    auto y = numbers(g.batch * g.out_pixels() * g.out);
    std::vector<std::byte> memory(std::max(direct::workspace_bytes(DType::f32, planes),
                                           by_dnnl::workspace_bytes(DType::f32, g)) +
                                  64);
    std::byte* const scratch = memory.data();
    const Best forward =
        compare([&] { direct::forward(planes, y.data(), x.data(), w.data(), scratch); },
                [&] { by_dnnl::forward(DType::f32, g, y.data(), x.data(), w.data(), scratch); });
    const Best input = compare(
        [&] { direct::backward_input(planes, dx.data(), y.data(), w.data(), scratch); },
        [&] { by_dnnl::backward_input(DType::f32, g, dx.data(), y.data(), w.data(), scratch); });
    const Best weight = compare(
        [&] { direct::backward_weight(planes, dw.data(), y.data(), x.data(), scratch); },
        [&] { by_dnnl::backward_weight(DType::f32, g, dw.data(), y.data(), x.data(), scratch); });
    std::printf("| %ldx%ldx%ldx%ld -> %ld, %ldx%ld%s |", layer.batch, layer.size, layer.size,
                layer.in, layer.out, layer.kernel, layer.kernel,
                layer.stride == 1 ? "" : ", stride 2");
    for (const Best& best : {forward, input, weight}) {
      std::printf(" %.2f / %.2f |", best.ours, best.library);
      ++wins[best.ours * 1.1 < best.library ? 0U : best.library * 1.1 < best.ours ? 2U : 1U];
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  const dnnl_version_t* const version = dnnl_version();
  std::printf("faster by 10 %%: ours %d, neither %d, oneDNN %d.%d.%d %d\n", wins[0], wins[1],
              version->major, version->minor, version->patch, wins[2]);
  return 0;
}

}  // namespace
}  // namespace trireme::ops::cpu

int main() {
  return trireme::ops::cpu::run();
}
