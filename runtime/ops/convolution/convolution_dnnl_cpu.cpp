// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"

#include <algorithm>

#include "runtime/ops/common/dnnl_cpu.h"

namespace trireme::ops::cpu::by_dnnl {

namespace {

using dnnl::memory;
using Forward = dnnl::convolution_forward;
using BackwardInput = dnnl::convolution_backward_data;
using BackwardWeight = dnnl::convolution_backward_weights;

constexpr auto algorithm = dnnl::algorithm::convolution_direct;

enum class Part : std::int64_t {
  forward,
  input,
  weight,
  to_library,
  to_library_input,
  from_library
};

PrimitiveKey key_of(Part part, DType dtype, const ConvolutionGeometry& g) {
  const auto kind =
      part >= Part::to_library ? PrimitiveKey::Kind::reorder : PrimitiveKey::Kind::convolution;
  return {kind,
          {static_cast<std::int64_t>(part), static_cast<std::int64_t>(dtype), g.batch, g.height,
           g.width, g.in, g.out, g.kernel_height, g.kernel_width, g.stride, g.padding}};
}

// oneDNN's descriptions of a convolution.
struct Descriptions {
  memory::desc x, y, any_weight, any_weight_gradient;
  memory::dims strides, padding;

  Descriptions(DType dtype, const ConvolutionGeometry& g)
      : x({g.batch, g.in, g.height, g.width}, dnnl_type(dtype), memory::format_tag::nhwc),
        y({g.batch, g.out, g.out_height, g.out_width}, dnnl_type(dtype), memory::format_tag::nhwc),
        any_weight(weight_extents(g), dnnl_type(dtype), memory::format_tag::any),
        any_weight_gradient(weight_extents(g), memory::data_type::f32, memory::format_tag::any),
        strides{g.stride, g.stride},
        padding{g.padding, g.padding} {}

  static memory::dims weight_extents(const ConvolutionGeometry& g) {
    return {g.out, g.in, g.kernel_height, g.kernel_width};
  }
  static memory::desc our_weight(DType dtype, const ConvolutionGeometry& g) {
    return {weight_extents(g), dnnl_type(dtype), memory::format_tag::ohwi};
  }

  [[nodiscard]] Forward::primitive_desc forward() const {
    return dnnl_describe<Forward>(dnnl_attributes(), dnnl::prop_kind::forward_training, algorithm,
                                  x, any_weight, y, strides, padding, padding);
  }
  [[nodiscard]] BackwardInput::primitive_desc input() const {
    return dnnl_describe_backward<BackwardInput>(dnnl_attributes(), forward(), algorithm, x,
                                                 any_weight, y, strides, padding, padding);
  }
  [[nodiscard]] BackwardWeight::primitive_desc weight() const {
    return dnnl_describe_backward<BackwardWeight>(dnnl_attributes(), forward(), algorithm, x,
                                                  any_weight_gradient, y, strides, padding,
                                                  padding);
  }
};

CachedPrimitive& forward_primitive(DType dtype, const ConvolutionGeometry& g) {
  return cached_primitive(key_of(Part::forward, dtype, g), [&] {
    const auto chosen = Descriptions(dtype, g).forward();
    return CachedPrimitive::make<Forward>(chosen, {{DNNL_ARG_DST, chosen.dst_desc()},
                                                   {DNNL_ARG_SRC, chosen.src_desc()},
                                                   {DNNL_ARG_WEIGHTS, chosen.weights_desc()}});
  });
}

CachedPrimitive& input_primitive(DType dtype, const ConvolutionGeometry& g) {
  return cached_primitive(key_of(Part::input, dtype, g), [&] {
    const auto chosen = Descriptions(dtype, g).input();
    return CachedPrimitive::make<BackwardInput>(chosen,
                                                {{DNNL_ARG_DIFF_SRC, chosen.diff_src_desc()},
                                                 {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
                                                 {DNNL_ARG_WEIGHTS, chosen.weights_desc()}});
  });
}

CachedPrimitive& weight_primitive(DType dtype, const ConvolutionGeometry& g) {
  return cached_primitive(key_of(Part::weight, dtype, g), [&] {
    const auto chosen = Descriptions(dtype, g).weight();
    return CachedPrimitive::make<BackwardWeight>(
        chosen, {{DNNL_ARG_DIFF_WEIGHTS, chosen.diff_weights_desc()},
                 {DNNL_ARG_DIFF_DST, chosen.diff_dst_desc()},
                 {DNNL_ARG_SRC, chosen.src_desc()}});
  });
}

// Reorders weights from our layout to that of `part`'s primitive.
CachedPrimitive& weight_to_library(Part part, DType dtype, const ConvolutionGeometry& g) {
  return cached_primitive(key_of(part, dtype, g), [&] {
    const Descriptions descriptions(dtype, g);
    const memory::desc from = Descriptions::our_weight(dtype, g);
    const memory::desc to = part == Part::to_library ? descriptions.forward().weights_desc()
                                                     : descriptions.input().weights_desc();
    const dnnl::reorder::primitive_desc chosen(dnnl_engine(), from, dnnl_engine(), to,
                                               dnnl_attributes());
    return CachedPrimitive::make<dnnl::reorder>(chosen, {{DNNL_ARG_TO, to}, {DNNL_ARG_FROM, from}});
  });
}

// Adds a weight gradient from oneDNN's layout to ours.
CachedPrimitive& gradient_from_library(DType dtype, const ConvolutionGeometry& g) {
  return cached_primitive(key_of(Part::from_library, dtype, g), [&] {
    const memory::desc from = Descriptions(dtype, g).weight().diff_weights_desc();
    const memory::desc to = Descriptions::our_weight(DType::f32, g);
    dnnl::post_ops add;
    add.append_sum(1.0F);
    dnnl::primitive_attr attributes = dnnl_attributes();
    attributes.set_post_ops(add);
    const dnnl::reorder::primitive_desc chosen(dnnl_engine(), from, dnnl_engine(), to, attributes);
    return CachedPrimitive::make<dnnl::reorder>(chosen, {{DNNL_ARG_TO, to}, {DNNL_ARG_FROM, from}});
  });
}

}  // namespace

std::size_t workspace_bytes(DType dtype, const ConvolutionGeometry& g) {
  return dnnl_checked("describing a convolution", [&] {
    const Descriptions descriptions(dtype, g);
    return std::max({descriptions.forward().weights_desc().get_size(),
                     descriptions.input().weights_desc().get_size(),
                     descriptions.weight().diff_weights_desc().get_size()});
  });
}

void forward(DType dtype, const ConvolutionGeometry& g, void* y, const void* x, const void* w,
             void* workspace) {
  weight_to_library(Part::to_library, dtype, g).execute({workspace, w});
  forward_primitive(dtype, g).execute({y, x, workspace});
}

void backward_input(DType dtype, const ConvolutionGeometry& g, void* dx, const void* dy,
                    const void* w, void* workspace) {
  weight_to_library(Part::to_library_input, dtype, g).execute({workspace, w});
  input_primitive(dtype, g).execute({dx, dy, workspace});
}

void backward_weight(DType dtype, const ConvolutionGeometry& g, float* dw, const void* dy,
                     const void* x, void* workspace) {
  weight_primitive(dtype, g).execute({workspace, dy, x});
  gradient_from_library(dtype, g).execute({dw, workspace});
}

}  // namespace trireme::ops::cpu::by_dnnl
