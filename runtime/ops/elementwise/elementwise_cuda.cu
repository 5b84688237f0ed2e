// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/fixed_sum_cuda.h"
#include "runtime/ops/common/transform_cuda.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme::ops::cuda {
namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float a) const { return a * factor; }
};
// NaN passes, because hiding it here would only move the failure elsewhere.
struct Relu {
  __device__ float operator()(float a) const { return a < 0.0F ? 0.0F : a; }
  __device__ float operator()(float a, float b) const { return (*this)(a + b); }
};
struct ReluBackward {
  __device__ float operator()(float dy, float y) const { return y > 0.0F ? dy : 0.0F; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    transform(stream, y.as<T>(), y.count(), Add{}, y.as<T>(), x.as<T>());
  });
}

void scale_in_place(Stream& stream, const Tensor& y, float factor) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    transform(stream, y.as<T>(), y.count(), Scale{factor}, y.as<T>());
  });
}

void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    if (b.empty()) {
      transform(stream, y.as<T>(), y.count(), Relu{}, a.as<T>());
    } else {
      transform(stream, y.as<T>(), y.count(), Relu{}, a.as<T>(), b.as<T>());
    }
  });
}

void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    transform(stream, dx.as<T>(), dx.count(), ReluBackward{}, dy.as<T>(), y.as<T>());
  });
}

void cast(Stream& stream, const Tensor& y, const Tensor& x) {
  if (y.dtype == x.dtype) {
    stream.device().copy(stream, y.data, x.data, y.bytes());
    return;
  }
  visit_compute_dtype(y.dtype, [&](auto to_type) {
    visit_compute_dtype(x.dtype, [&]<typename From>(From) {
      using To = decltype(to_type);
      if constexpr (!std::is_same_v<To, From>)
        transform(stream, y.as<To>(), y.count(), Same{}, x.as<From>());
    });
  });
}

void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  add_fixed_sum<false>(stream, total, x);
}

TRIREME_CUDA_PROVIDES(ops, add_in_place, scale_in_place, relu_forward, relu_backward, cast,
                      accumulate_sum);

namespace {

// As wide as the wider of the two dtypes allows.
template <int width, typename T, typename In>
__global__ void add_kernel(T* y, const In* x, const float* bias, const T* residual, RowPacks packs,
                           std::int64_t columns) {
  packs.each([&](std::int64_t row, std::int64_t pack) {
    const std::int64_t column = pack * width;
    const std::int64_t at = row * columns + column;
    const auto in = load_pack<width>(x + at);
    Pack<float, width> sum;
#pragma unroll
    for (int j = 0; j < width; ++j)
      sum[j] = load(in[j]);
    if (bias != nullptr) {
      const auto add = row_floats<(width > 1), width>(bias, column, columns);
#pragma unroll
      for (int j = 0; j < width; ++j)
        sum[j] += add[j];
    }
    if (residual != nullptr) {
      const auto add = load_pack<width>(residual + at);
#pragma unroll
      for (int j = 0; j < width; ++j)
        sum[j] += load(add[j]);
    }
    Pack<T, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(out[j], sum[j]);
    store_pack(y + at, out);
  });
}

template <typename T, bool aligned>
struct RowTerms {
  const T* dy;
  std::int64_t columns;

  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[1][width]) const {
    const auto pack = row_pack<aligned>(dy + row * columns, column, columns);
#pragma unroll
    for (int j = 0; j < width; ++j)
      sums[0][j] += load(pack[j]);
  }
};

}  // namespace

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual) {
  const std::int64_t columns = y.shape.back();
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_compute_dtype(x.dtype, [&]<typename In>(In) {
      using T = decltype(type);
      constexpr int widest = std::min(pack_width<T>, pack_width<In>);
      const T* const second = residual.empty() ? nullptr : residual.as<T>();
      const float* const values = bias.empty() ? nullptr : bias.as<float>();
      const bool fits = packs_fit(y.as<T>(), columns, widest) &&
                        packs_fit(x.as<In>(), columns, widest) &&
                        packs_fit(second, columns, widest) &&
                        reinterpret_cast<std::uintptr_t>(values) % pack_bytes == 0;
      with_flag(fits, [&](auto flag) {
        constexpr int width = flag ? widest : 1;
        const RowPacks packs(y.shape.rows(), columns, width);
        trireme::cuda::launch(stream, trireme::cuda::grid_for(stream, packs.count(), 256),
                              add_kernel<width, T, In>, y.as<T>(), x.as<In>(), values, second,
                              packs, columns);
      });
    });
  });
}

void column_sums(Stream& stream, const Tensor& db, const Tensor& dy) {
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    const std::int64_t columns = dy.shape.back();
    with_flag(rows_align<T>(dy.as<T>(), columns), [&](auto aligned) {
      add_column_sums<1, pack_width<T>>(stream, {{db.as<float>()}},
                                        RowTerms<T, aligned>{dy.as<T>(), columns}, dy.shape.rows(),
                                        columns);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, add_bias_residual, column_sums);

}  // namespace trireme::ops::cuda
