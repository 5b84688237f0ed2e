// SPDX-License-Identifier: Apache-2.0
// A benchmark, run by hand: the linear layers of scripts/compare_pytorch.py's models in f32 on one
// core, by our ops and by dnnl_sgemm, alternating. Prints GFLOP/s, the best of several, for forward
// with a bias, input gradient, and weight gradient with a bias gradient (which dnnl_sgemm lacks).
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/device/backends.h"
#include "runtime/ops/gemm/linear.h"
#include "runtime/ops/gemm/matmul_cpu.h"
#include "runtime/ops/random/init.h"

namespace trireme::ops {
namespace {

struct Layer {
  std::int64_t rows, outputs, inputs;
};
constexpr std::array layers{Layer{4096, 1152, 384},  Layer{4096, 384, 384},  Layer{4096, 1536, 384},
                            Layer{4096, 384, 1536},  Layer{4096, 640, 384},  Layer{4096, 2048, 384},
                            Layer{4096, 384, 1024},  Layer{4096, 256, 384},  Layer{3136, 576, 192},
                            Layer{3136, 768, 192},   Layer{3136, 192, 768},  Layer{1024, 768, 768},
                            Layer{2048, 4096, 1024}, Layer{2048, 1024, 4096}};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Best {
  double ours = 1e9, library = 1e9;
};
Best compare(const std::function<void()>& ours, const std::function<void()>& library) {
  ours();
  library();
  Best best;
  for (int round = 0; round < 7; ++round) {
    best.ours = std::min(best.ours, seconds(ours));
    best.library = std::min(best.library, seconds(library));
  }
  return best;
}

class Bench {
 public:
  void run() {
    std::printf(
        "| rows, outputs, inputs | forward | input gradient | weight gradient |\n"
        "|---|---|---|---|\n");
    for (const Layer& layer : layers)
      row(layer);
  }

 private:
  Tensor numbers(const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * sizeof(float);
    const Tensor tensor =
        buffers_.emplace_back(*device_, bytes, MemoryKind::device).view(DType::f32, shape);
    fill_normal(*stream_, tensor, 1, 1, 0, 0.0F, 1.0F);
    return tensor;
  }

  void row(const Layer& layer) {
    const auto [n, o, i] = layer;
    const Tensor x = numbers({n, i}), w = numbers({o, i}), bias = numbers({o}), y = numbers({n, o});
    const Tensor dx = numbers({n, i}), dw = numbers({o, i}), db = numbers({o});
    const auto p = [](const Tensor& t) { return t.as<float>(); };
    using enum cpu::Transpose;
    Stream& s = *stream_;
    const Best forward = compare([&] { linear_forward(s, y, x, w, bias); },
                                 [&] {
                                   cpu::matmul(n, o, i, {p(x), i}, {p(w), i, yes}, 0.0F, p(y), o);
                                 });
    const Best input = compare([&] { linear_backward_input(s, dx, y, w); },
                               [&] {
                                 cpu::matmul(n, i, o, {p(y), o}, {p(w), i}, 0.0F, p(dx), i);
                               });
    const Best weight = compare([&] { linear_backward_weight(s, dw, db, y, x); },
                                [&] {
                                  cpu::matmul(o, i, n, {p(y), o, yes}, {p(x), i}, 1.0F, p(dw), i);
                                });
    const double flops = 2e-9 * static_cast<double>(n * o * i);
    std::printf("| %ld, %ld, %ld |", n, o, i);
    for (const Best& best : {forward, input, weight})
      std::printf(" %.0f / %.0f |", flops / best.ours, flops / best.library);
    std::printf("\n");
    std::fflush(stdout);
    buffers_.clear();
  }

  std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream(StreamKind::compute);
  std::vector<Buffer> buffers_;
};

}  // namespace
}  // namespace trireme::ops

int main() {
  trireme::ops::Bench().run();
}
