// SPDX-License-Identifier: Apache-2.0
// A benchmark, run by hand: grouped linear layers of experts on one core, beside ordinary linear
// layers of the same total size, alternating. Prints GFLOP/s, the best of several, for forward,
// input gradient and weight gradient, and that of a tile in the first-level cache. With the
// argument bf16 in bf16, with parts f32 in parts. ONEDNN_MAX_CPU_ISA=AVX512_CORE keeps the ordinary
// ones in f32 on a processor with AMX.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/device/backends.h"
#include "runtime/ops/experts/grouped_linear.h"
#include "runtime/ops/gemm/linear.h"
#include "runtime/ops/gemm/matmul_tile_cpu.h"
#include "runtime/ops/random/init.h"

namespace trireme::ops {
namespace {

struct Layer {
  std::int64_t experts, rows, outputs, inputs;  // rows of each expert
};
constexpr std::array layers{
    Layer{16, 8, 512, 256},     Layer{16, 64, 512, 256},   Layer{16, 256, 512, 256},
    Layer{16, 8, 1536, 2048},   Layer{16, 32, 1536, 2048}, Layer{16, 64, 1536, 2048},
    Layer{16, 100, 1536, 2048}, Layer{8, 256, 1536, 2048}, Layer{16, 64, 2048, 768},
    Layer{8, 256, 2048, 768},   Layer{8, 1024, 1024, 384}};

double best_of(const std::function<void()>& work, int rounds) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

double peak() {
  constexpr std::int64_t depth = 64, repeats = 20000;
  alignas(64) static float a[cpu::tile_rows * depth], b[depth * cpu::tile_columns];
  alignas(64) static float c[cpu::tile_rows * cpu::tile_columns];
  const double took = best_of(
      [] {
        for (std::int64_t i = 0; i < repeats; ++i)
          cpu::panel_tile<true>(cpu::tile_columns, true, depth, {a, depth, 1}, b, c,
                                cpu::tile_columns);
      },
      5);
  return 2e-9 * static_cast<double>(cpu::tile_rows * cpu::tile_columns * depth * repeats) / took;
}

class Bench {
 public:
  Bench(DType dtype, F32Products f32) : dtype_(dtype), f32_(f32) {}
  void run() {
    std::printf("a tile: %.0f GFLOP/s\n", peak());
    std::printf(
        "| experts, rows, outputs, inputs | forward | input gradient | weight gradient |\n"
        "|---|---|---|---|\n");
    for (const Layer& layer : layers)
      row(layer);
  }

 private:
  Tensor numbers(DType dtype, const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    const Tensor tensor =
        buffers_.emplace_back(*device_, bytes, MemoryKind::device).view(dtype, shape);
    if (dtype == DType::f32) {
      fill_normal(*stream_, tensor, 1, 1, 0, 0.0F, 1.0F);
    } else {
      device_->fill_zero(*stream_, tensor.data, bytes);
    }
    return tensor;
  }
  Tensor offsets(const Layer& layer) {
    const Tensor table =
        buffers_
            .emplace_back(*device_, static_cast<std::size_t>(layer.experts + 1) * 4,
                          MemoryKind::device)
            .view(DType::i32, {layer.experts + 1});
    for (std::int64_t e = 0; e <= layer.experts; ++e)
      table.as<std::int32_t>()[e] = static_cast<std::int32_t>(e * layer.rows);
    return table;
  }

  void row(const Layer& layer) {
    const auto [e, rows, o, i] = layer;
    const std::int64_t n = e * rows;
    const Tensor x = numbers(dtype_, {n, i}), w = numbers(dtype_, {e, o, i});
    const Tensor y = numbers(dtype_, {n, o}), dx = numbers(dtype_, {n, i});
    const Tensor dw = numbers(DType::f32, {e, o, i}), first = offsets(layer);
    const Tensor one_w = w.range(0, o * i).reshaped({o, i});
    const Tensor one_dw = dw.range(0, o * i).reshaped({o, i});
    Stream& s = *stream_;
    const double flops = 2e-9 * static_cast<double>(n * o * i);
    std::printf("| %ld, %ld, %ld, %ld |", e, rows, o, i);
    const auto compare = [&](const std::function<void()>& ours,
                             const std::function<void()>& whole) {
      double best = 1e9, best_whole = 1e9;
      for (int round = 0; round < 5; ++round) {
        best = std::min(best, best_of(ours, 2));
        best_whole = std::min(best_whole, best_of(whole, 2));
      }
      std::printf(" %.0f / %.0f |", flops / best, flops / best_whole);
      std::fflush(stdout);
    };
    compare([&] { grouped_forward(s, y, x, w, {}, first, f32_); },
            [&] { linear_forward(s, y, x, one_w); });
    compare([&] { grouped_backward_input(s, dx, y, w, first, f32_); },
            [&] { linear_backward_input(s, dx, y, one_w); });
    compare([&] { grouped_backward_weight(s, dw, {}, y, x, first, 0, e, f32_); },
            [&] { linear_backward_weight(s, one_dw, {}, y, x); });
    std::printf("\n");
    buffers_.clear();
  }

  DType dtype_;
  F32Products f32_;
  std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream(StreamKind::compute);
  std::vector<Buffer> buffers_;
};

}  // namespace
}  // namespace trireme::ops

int main(int count, char** arguments) {
  using namespace trireme;
  const std::string_view way = count > 1 ? arguments[1] : "";
  ops::Bench(way == "bf16" ? DType::bf16 : DType::f32,
             way == "parts" ? ops::F32Products::parts : ops::F32Products::chains)
      .run();
}
