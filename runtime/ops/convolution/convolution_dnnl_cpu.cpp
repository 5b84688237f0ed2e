// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_dnnl_cpu.h"

#include <algorithm>

#include "runtime/ops/common/dnnl_cpu.h"
#include "runtime/ops/common/plan_table.h"

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
  PrimitiveKey key{kind,
                   {static_cast<std::int64_t>(part) << 32 | static_cast<std::int64_t>(dtype),
                    g.batch, g.in, g.out, g.groups}};
  std::size_t at = 5;
  for (const WindowAxis* const a : {&g.axes.depth, &g.axes.height, &g.axes.width}) {
    for (const std::int64_t fact : {a->extent, a->window, a->stride, a->padding, a->dilation})
      key.facts[at++] = fact;
  }
  return key;
}

// oneDNN's descriptions of a convolution. It names extents N, C, [D,] H, W in every layout.
struct Descriptions {
  memory::desc x, y, any_weight, any_weight_gradient;
  memory::dims strides, padding, dilation;

  Descriptions(DType dtype, const ConvolutionGeometry& g)
      : x(joined({g.batch, g.in}, spatial(g, &WindowAxis::extent)), dnnl_type(dtype),
          channels_last(g)),
        y(joined({g.batch, g.out}, spatial(g, &WindowAxis::out)), dnnl_type(dtype),
          channels_last(g)),
        any_weight(weight_extents(g), dnnl_type(dtype), memory::format_tag::any),
        any_weight_gradient(weight_extents(g), memory::data_type::f32, memory::format_tag::any),
        strides(spatial(g, &WindowAxis::stride)),
        padding(spatial(g, &WindowAxis::padding)),
        dilation(spatial(g, &WindowAxis::dilation)) {
    for (std::int64_t& gap : dilation)
      --gap;  // oneDNN counts the positions between
  }

  static memory::dims spatial(const ConvolutionGeometry& g, std::int64_t WindowAxis::*value) {
    const WindowAxes& a = g.axes;
    if (!g.volumes()) return {a.height.*value, a.width.*value};
    return {a.depth.*value, a.height.*value, a.width.*value};
  }
  static memory::dims joined(memory::dims first, const memory::dims& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
  static memory::format_tag channels_last(const ConvolutionGeometry& g) {
    return g.volumes() ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
  }
  // Groups are an axis of their own, if there are several.
  static memory::dims weight_extents(const ConvolutionGeometry& g) {
    memory::dims channels{g.out / g.groups, g.in / g.groups};
    if (g.groups > 1) channels.insert(channels.begin(), g.groups);
    return joined(channels, spatial(g, &WindowAxis::window));
  }
  static memory::desc our_weight(DType dtype, const ConvolutionGeometry& g) {
    const memory::dims extents = weight_extents(g);
    memory::dims steps(extents.size());
    const std::size_t input = g.groups > 1 ? 2 : 1;
    steps[input] = 1;
    std::int64_t step = extents[input];
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      if (axis == input) continue;
      steps[axis] = step;
      step *= extents[axis];
    }
    return {extents, dnnl_type(dtype), steps};
  }

  [[nodiscard]] Forward::primitive_desc forward() const {
    return dnnl_describe<Forward>(dnnl_attributes(), dnnl::prop_kind::forward_training, algorithm,
                                  x, any_weight, y, strides, dilation, padding, padding);
  }
  [[nodiscard]] BackwardInput::primitive_desc input() const {
    return dnnl_describe_backward<BackwardInput>(dnnl_attributes(), forward(), algorithm, x,
                                                 any_weight, y, strides, dilation, padding,
                                                 padding);
  }
  [[nodiscard]] BackwardWeight::primitive_desc weight() const {
    return dnnl_describe_backward<BackwardWeight>(dnnl_attributes(), forward(), algorithm, x,
                                                  any_weight_gradient, y, strides, dilation,
                                                  padding, padding);
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

// Cached, because each call of a convolution checks its workspace.
std::size_t workspace_bytes(DType dtype, const ConvolutionGeometry& g) {
  static thread_local PlanTable<PrimitiveKey, std::size_t> known;
  const PrimitiveKey key = key_of(Part::forward, dtype, g);
  if (const std::size_t* const found = known.find(key)) return *found;
  const std::size_t bytes = dnnl_checked("describing a convolution", [&] {
    const Descriptions descriptions(dtype, g);
    return std::max({descriptions.forward().weights_desc().get_size(),
                     descriptions.input().weights_desc().get_size(),
                     descriptions.weight().diff_weights_desc().get_size()});
  });
  return known.insert(key, std::make_unique<std::size_t>(bytes));
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
