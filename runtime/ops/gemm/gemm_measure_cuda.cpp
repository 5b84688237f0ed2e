// SPDX-License-Identifier: Apache-2.0
// Measures algorithms, and epilogues against separate kernels. See Note [Tuned GEMMs].
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/cublaslt_plan_cuda.h"
#include "runtime/ops/gemm/gemm_tuning.h"

namespace trireme::ops::cuda {
namespace {

// Zero operands for a matmul that is only measured, aligned exactly as its key says.
class Operands {
 public:
  Operands(Stream& stream, const GemmKey& key) : stream_(stream), key_(key) {
    const std::int64_t results = key.m * key.n;
    gemm = {.m = key.m,
            .n = key.n,
            .k = key.k,
            .transpose_a = key.transpose_a,
            .transpose_b = key.transpose_b,
            .type_a = key.type_a,
            .type_b = key.type_b,
            .output = key.output,
            .epilogue = key.epilogue,
            .a = add(key.m * key.k, key.type_a),
            .b = add(key.k * key.n, key.type_b),
            .d = add(results, key.output)};
    if (size_of(key.type_a) == 1) {
      gemm.scale_a = add_scales(gemm.scaling_a = key.scaling_a, key.m);
      gemm.scale_b = add_scales(gemm.scaling_b = key.scaling_b, key.n);
    }
    if (key.epilogue == Epilogue::bias || key.epilogue == Epilogue::gelu_bias)
      gemm.bias = add(key.m, key.output);
    if (key.epilogue == Epilogue::gelu_bias || key.epilogue == Epilogue::dgelu)
      gemm.aux = add(results, key.output);
    if (key.epilogue == Epilogue::bias_gradient) {
      gemm.bias_gradient = reinterpret_cast<float*>(add(key.n, DType::f32));
      sums = {add(key.n, DType::f32), DType::f32, Shape{key.n}};
    }
  }

  Gemm gemm;
  Tensor sums;  // to which bias gradients are added

 private:
  std::byte* add(std::int64_t elements, DType dtype) {
    const std::size_t shift = key_.alignment;  // buffers are aligned to more
    const std::size_t bytes = shift + static_cast<std::size_t>(elements) * size_of(dtype);
    const Buffer& buffer = buffers_.emplace_back(stream_.device(), bytes, MemoryKind::device);
    stream_.device().fill_zero(stream_, buffer.data(), bytes);
    return buffer.data() + shift;
  }

  const void* add_scales(Fp8Scaling scaling, std::int64_t rows) {
    return add(fp8_scale_shape(scaling, {rows, key_.k}).count(), fp8_scale_dtype(scaling));
  }

  Stream& stream_;
  const GemmKey& key_;
  std::vector<Buffer> buffers_;
};

class Stopwatch {
 public:
  explicit Stopwatch(Stream& stream) : stream_(stream) {}
  // Microseconds of one call.
  template <typename Call>
  [[nodiscard]] double time(const Call& call) {
    constexpr int repetitions = 5;
    stream_.record(*start_);
    for (int i = 0; i < repetitions; ++i)
      call();
    stream_.record(*end_);
    end_->synchronize();
    return 1e3 * end_->milliseconds_since(*start_) / repetitions;
  }

 private:
  Stream& stream_;
  std::unique_ptr<Event> start_ = stream_.device().make_event(EventKind::timed);
  std::unique_ptr<Event> end_ = stream_.device().make_event(EventKind::timed);
};

// A matmul with the algorithm of a choice.
class ChosenGemm {
 public:
  ChosenGemm(const GemmKey& key, const Gemm& gemm, const GemmChoice& choice)
      : gemm_(gemm), plan_(key, gemm) {
    std::ranges::copy(choice.algorithm, algorithm_.data);
  }
  void run(CudaStream& stream) { plan_.run(stream, gemm_, algorithm_); }

 private:
  Gemm gemm_;
  GemmPlan plan_;
  cublasLtMatmulAlgo_t algorithm_{};
};

GemmChoice fastest(CudaStream& stream, const GemmKey& key, const Gemm& gemm) {
  constexpr int candidates = 16;
  GemmPlan plan(key, gemm);
  Stopwatch watch(stream);
  GemmChoice best{.microseconds = std::numeric_limits<double>::infinity()};
  for (const cublasLtMatmulAlgo_t& algorithm : plan.suggest(candidates)) {
    const auto run = [&] { plan.run(stream, gemm, algorithm); };
    run();  // loads the kernel
    const double microseconds = watch.time(run);
    if (microseconds < best.microseconds) {
      best.microseconds = microseconds;
      std::ranges::copy(algorithm.data, best.algorithm.begin());
    }
  }
  TRIREME_EXPECTS(std::isfinite(best.microseconds), "cuBLASLt does not multiply {}",
                  ops::to_text(key));
  return best;
}

// What linear_cuda.cpp enqueues besides the matmul with an epilogue, and besides the plain one.
void finish_fused(Stream& stream, const Operands& of) {
  if (of.sums.empty()) return;
  const auto fresh = reinterpret_cast<std::byte*>(of.gemm.bias_gradient);
  ops::add_in_place(stream, of.sums, {fresh, of.sums.dtype, of.sums.shape});
}

void finish_apart(Stream& stream, const Operands& of) {
  const Gemm& gemm = of.gemm;
  const auto matrix = [](const void* data, DType dtype, std::int64_t rows, std::int64_t columns) {
    return Tensor{static_cast<std::byte*>(const_cast<void*>(data)), dtype, Shape{rows, columns}};
  };
  const Tensor d = matrix(gemm.d, gemm.output, gemm.n, gemm.m);
  const Tensor pre = matrix(gemm.aux, gemm.output, gemm.n, gemm.m);
  if (gemm.epilogue == Epilogue::gelu_bias) {
    ops::activation_forward(stream, d, pre, ActivationKind::gelu_tanh);
  } else if (gemm.epilogue == Epilogue::dgelu) {
    ops::activation_backward(stream, d, d, pre, ActivationKind::gelu_tanh);
  } else {
    ops::column_sums(stream, of.sums, matrix(gemm.b, gemm.type_b, gemm.k, gemm.n));
  }
}

// Both ways by turns, on the same memory. The first round loads the kernels.
void compare(CudaStream& stream, const GemmKey& key, const GemmKey& plain_key,
             const GemmChoice& plain_choice, const Operands& of, GemmChoice& choice) {
  constexpr std::size_t rounds = 7;
  Gemm plain = of.gemm;
  plain.epilogue = plain_key.epilogue;
  if (key.epilogue == Epilogue::gelu_bias) plain.d = plain.aux;
  plain.aux = nullptr;
  plain.bias_gradient = nullptr;
  ChosenGemm with(key, of.gemm, choice), without(plain_key, plain, plain_choice);
  Stopwatch watch(stream);
  std::array<double, 1 + rounds> fused{}, apart{};
  for (std::size_t round = 0; round <= rounds; ++round) {
    fused[round] = watch.time([&] { with.run(stream), finish_fused(stream, of); });
    apart[round] = watch.time([&] { without.run(stream), finish_apart(stream, of); });
  }
  std::sort(fused.begin() + 1, fused.end());
  std::sort(apart.begin() + 1, apart.end());
  choice.microseconds = fused[1 + rounds / 2];
  choice.apart_microseconds = apart[1 + rounds / 2];
  choice.fused = fused[rounds - 1] < apart[1];
}

}  // namespace

void measure_gemm(Stream& stream, const GemmKey& key, GemmChoices& choices) {
  GemmKey plain = key;
  plain.epilogue = epilogue_apart(key.epilogue);
  if (plain != key && !choices.algorithms.contains(plain))
    cuda::measure_gemm(stream, plain, choices);
  const Operands operands(stream, key);
  auto& on = CudaStream::of(stream);
  GemmChoice choice = fastest(on, key, operands.gemm);
  if (plain != key) compare(on, key, plain, choices.algorithms.at(plain), operands, choice);
  choices.algorithms.insert_or_assign(key, choice);
}

TRIREME_CUDA_PROVIDES(ops, measure_gemm);

}  // namespace trireme::ops::cuda
