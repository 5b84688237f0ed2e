// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/matmul_cpu.h"

#include <vector>

#include "runtime/ops/common/dnnl_cpu.h"

namespace trireme::ops::cpu {
namespace {

using dnnl::memory;

enum class Pass : std::int64_t { forward, backward_input, backward_weight };

PrimitiveKey key_of(Pass pass, DType dtype, std::int64_t rows, std::int64_t outputs,
                    std::int64_t inputs, bool bias = false, bool residual = false) {
  return {PrimitiveKey::Kind::matmul,
          {static_cast<std::int64_t>(pass), static_cast<std::int64_t>(dtype), rows, outputs, inputs,
           bias, residual}};
}

// c = a b, or c += a b.
std::unique_ptr<CachedPrimitive> make_matmul(const memory::desc& a, const memory::desc& b,
                                             const memory::desc& c, bool accumulate) {
  dnnl::primitive_attr attributes = dnnl_attributes();
  if (accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0F);
    attributes.set_post_ops(add);
  }
  return CachedPrimitive::make<dnnl::matmul>(
      dnnl_describe<dnnl::matmul>(attributes, a, b, c),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

}  // namespace

void matmul(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView& a,
            const MatrixView& b, float beta, float* c, std::int64_t c_stride) {
  static_cast<void>(dnnl_stream());  // limits this thread to one core
  dnnl_check(dnnl_sgemm(a.transpose == Transpose::yes ? 'T' : 'N',
                        b.transpose == Transpose::yes ? 'T' : 'N', m, n, k, 1.0F, a.data, a.stride,
                        b.data, b.stride, beta, c, c_stride),
             "dnnl_sgemm");
}

bool multiplies_transposed_well() {
#if defined(__x86_64__)
  static const bool answer = [] {
    constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    return (has & wanted) == wanted && __builtin_cpu_is("intel") != 0;
  }();
  return answer;
#else
  return false;
#endif
}

void native_forward(DType dtype, std::int64_t rows, std::int64_t outputs, std::int64_t inputs,
                    void* y, const void* x, const void* w, const float* bias,
                    const void* residual) {
  const bool with_bias = bias != nullptr;
  const bool with_residual = residual != nullptr;
  const auto make = [&] {
    const auto type = dnnl_type(dtype);
    const memory::desc x_desc({rows, inputs}, type, memory::dims{inputs, 1});
    const memory::desc w_desc({inputs, outputs}, type, memory::dims{1, inputs});
    const memory::desc y_desc({rows, outputs}, type, memory::dims{outputs, 1});
    const memory::desc bias_desc({1, outputs}, memory::data_type::f32, memory::dims{outputs, 1});
    std::vector<CachedPrimitive::Argument> arguments = {
        {DNNL_ARG_SRC, x_desc}, {DNNL_ARG_WEIGHTS, w_desc}, {DNNL_ARG_DST, y_desc}};
    if (with_bias) arguments.push_back({DNNL_ARG_BIAS, bias_desc});
    dnnl::primitive_attr attributes = dnnl_attributes();
    if (with_residual) {
      dnnl::post_ops add;
      add.append_binary(dnnl::algorithm::binary_add, y_desc);
      attributes.set_post_ops(add);
      arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, y_desc});
    }
    return CachedPrimitive::make<dnnl::matmul>(
        dnnl_describe<dnnl::matmul>(attributes, x_desc, w_desc,
                                    with_bias ? bias_desc : memory::desc(), y_desc),
        arguments);
  };
  CachedPrimitive& primitive = cached_primitive(
      key_of(Pass::forward, dtype, rows, outputs, inputs, with_bias, with_residual), make);
  std::array<const void*, 5> pointers = {x, w, y};
  std::size_t count = 3;
  if (with_bias) pointers[count++] = bias;
  if (with_residual) pointers[count++] = residual;
  primitive.execute(std::span(pointers).first(count));
}

void native_backward_input(DType dtype, std::int64_t rows, std::int64_t outputs,
                           std::int64_t inputs, void* dx, const void* dy, const void* w,
                           bool accumulate) {
  const auto make = [&] {
    const auto type = dnnl_type(dtype);
    return make_matmul(memory::desc({rows, outputs}, type, memory::dims{outputs, 1}),
                       memory::desc({outputs, inputs}, type, memory::dims{inputs, 1}),
                       memory::desc({rows, inputs}, type, memory::dims{inputs, 1}), accumulate);
  };
  cached_primitive(key_of(Pass::backward_input, dtype, rows, outputs, inputs, false, accumulate),
                   make)
      .execute({dy, w, dx});
}

void native_backward_weight(DType dtype, std::int64_t rows, std::int64_t outputs,
                            std::int64_t inputs, float* dw, const void* dy, const void* x) {
  const auto make = [&] {
    const auto type = dnnl_type(dtype);
    return make_matmul(
        memory::desc({outputs, rows}, type, memory::dims{1, outputs}),
        memory::desc({rows, inputs}, type, memory::dims{inputs, 1}),
        memory::desc({outputs, inputs}, memory::data_type::f32, memory::dims{inputs, 1}), true);
  };
  cached_primitive(key_of(Pass::backward_weight, dtype, rows, outputs, inputs), make)
      .execute({dy, x, dw});
}

}  // namespace trireme::ops::cpu
