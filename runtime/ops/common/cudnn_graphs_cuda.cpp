// SPDX-License-Identifier: Apache-2.0
// The only file that includes cudnn-frontend: its headers take half a minute to compile.
#include "runtime/ops/common/cudnn_graphs.h"

// An RMS norm in cudnn-frontend, which no graph of ours has, compiles itself by these functions. As
// weak symbols they need no libnvrtc when the program is linked and started.
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetErrorString
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <unordered_map>

#include "runtime/base/log.h"
#include "runtime/device/cuda/cuda_check.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda_slot.h"

namespace trireme::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Tensor_attributes>;
using Extents = std::vector<std::int64_t>;

void check(fe::error_t status, std::string_view call,
           std::source_location where = std::source_location::current()) {
  if (status.is_good()) return;
  library_failed(call, status.get_message(), ExitCode::internal, where);
}

void check(cudnnStatus_t status, std::string_view call,
           std::source_location where = std::source_location::current()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  library_failed(call, cudnnGetErrorString(status), ExitCode::internal, where);
}

// The rest is the library's log of every engine it tried.
std::string first_line(fe::error_t status) {
  const std::string text = status.get_message();
  return text.substr(0, text.find('\n'));
}

fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return fe::DataType_t::FLOAT;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    case DType::i32:
      return fe::DataType_t::INT32;
    case DType::i64:
      return fe::DataType_t::INT64;
    default:
      TRIREME_EXPECTS(false, "cuDNN graphs of {} are not made here", name_of(dtype));
  }
}

// Makes a graph's tensors; an operand's uid is its index in the operand list.
class Operands {
 public:
  explicit Operands(Graph& graph) : graph_(graph) {}

  // `offsets`: of ragged sequences; may be null.
  TensorPointer input(DType dtype, const Extents& extents, const Extents& strides,
                      const TensorPointer& offsets = nullptr) {
    return graph_.tensor(Tensor_attributes()
                             .set_uid(next_++)
                             .set_dim(extents)
                             .set_stride(strides)
                             .set_data_type(type_of(dtype))
                             .set_ragged_offset(offsets));
  }
  void output(const TensorPointer& tensor, DType dtype, const Extents& extents,
              const Extents& strides, const TensorPointer& offsets = nullptr) {
    tensor->set_output(true)
        .set_uid(next_++)
        .set_dim(extents)
        .set_stride(strides)
        .set_data_type(type_of(dtype))
        .set_ragged_offset(offsets);
  }

 private:
  Graph& graph_;
  std::int64_t next_ = 0;
};

// Null where all sequences have one length.
struct Ragged {
  TensorPointer lengths, projection, out, lse;
  Ragged(Operands& operands, const AttentionGraph& a) {
    if (a.sequences == 0) return;
    const auto vector = [&](DType dtype, std::int64_t count) {
      return operands.input(dtype, {count, 1, 1, 1}, {1, 1, 1, 1});
    };
    lengths = vector(DType::i32, a.sequences);
    for (TensorPointer* const offsets : {&projection, &out, &lse})
      *offsets = vector(DType::i64, a.sequences + 1);
  }
};

template <typename Attributes>
Attributes with_mask(const AttentionGraph& a, const Ragged& ragged, Attributes attributes) {
  if (a.sequences > 0) {
    attributes.set_padding_mask(true)
        .set_seq_len_q(ragged.lengths)
        .set_seq_len_kv(ragged.lengths)
        .set_max_total_seq_len_q(a.batch * a.length)
        .set_max_total_seq_len_kv(a.batch * a.length);
  }
  if (!a.causal) return attributes;
  attributes
      .set_diagonal_alignment(a.part.queries > 0 ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                 : fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
  // The bound counts the query's own position.
  if (a.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(a.window));
  return attributes;
}

void define(Graph& graph, const AttentionGraph& a) {
  const bool whole = a.part.queries == 0;
  const AttentionPartRows part =
      whole ? AttentionPartRows{a.length, a.length, 0, a.heads, a.kv_heads} : a.part;
  const std::int64_t row = (part.heads + 2 * part.kv_heads) * a.size;  // of the packed projection
  const std::int64_t count = a.sequences > 0 ? a.sequences : a.batch;
  // Of `positions` positions of `width` elements.
  const auto strides = [&](std::int64_t positions, std::int64_t width) {
    return Extents{positions * width, a.size, width, 1};
  };
  const Extents query{count, a.heads, part.queries, a.size};
  const Extents key{count, a.kv_heads, a.length, a.size};
  const Extents packed = strides(part.rows, row);
  const Extents plain = strides(part.rows, part.heads * a.size);
  const Extents keys = whole ? packed : strides(part.positions, a.kv_heads * a.size);
  const Extents key_gradients = whole ? packed : strides(a.length, a.kv_heads * a.size);
  const DType gradient = part.f32 ? DType::f32 : a.dtype;
  const Extents row_sums{count, a.heads, part.queries, 1};
  const Extents row_strides = a.sequences > 0 ? Extents{a.heads * a.length, 1, a.heads, 1}
                                              : Extents{a.heads * part.queries, part.queries, 1, 1};
  const float scale = a.scale > 0 ? a.scale : 1.0F / std::sqrt(static_cast<float>(a.size));
  Operands operands(graph);
  const Ragged ragged(operands, a);
  const TensorPointer q = operands.input(a.dtype, query, packed, ragged.projection);
  const TensorPointer k = operands.input(a.dtype, key, keys, ragged.projection);
  const TensorPointer v = operands.input(a.dtype, key, keys, ragged.projection);
  if (a.pass == AttentionGraph::Pass::forward) {
    const auto [out, lse] = graph.sdpa(q, k, v,
                                       with_mask(a, ragged,
                                                 fe::graph::SDPA_attributes()
                                                     .set_name("attention_forward")
                                                     .set_generate_stats(true)
                                                     .set_attn_scale(scale)));
    operands.output(out, a.dtype, query, plain, ragged.out);
    operands.output(lse, DType::f32, row_sums, row_strides, ragged.lse);
    return;
  }
  const TensorPointer out = operands.input(a.dtype, query, plain, ragged.out);
  const TensorPointer lse = operands.input(DType::f32, row_sums, row_strides, ragged.lse);
  const TensorPointer dout = operands.input(a.dtype, query, plain, ragged.out);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q, k, v, out, dout, lse,
                          with_mask(a, ragged,
                                    fe::graph::SDPA_backward_attributes()
                                        .set_name("attention_backward")
                                        .set_attn_scale(scale)
                                        .set_deterministic_algorithm(a.deterministic)));
  operands.output(dq, a.dtype, query, packed, ragged.projection);
  operands.output(dk, gradient, key, key_gradients, ragged.projection);
  operands.output(dv, gradient, key, key_gradients, ragged.projection);
}

// A value of each spatial axis, behind `first`.
Extents extents_of(const ConvolutionGeometry& g, Extents first, std::int64_t WindowAxis::*value) {
  if (g.volumes()) first.push_back(g.axes.depth.*value);
  first.push_back(g.axes.height.*value);
  first.push_back(g.axes.width.*value);
  return first;
}

void define(Graph& graph, const ConvolutionGraph& c) {
  // cuDNN names extents N, C, [D,] H, W in every layout; the strides make the channels the last.
  const auto channels_last = [](const Extents& e) {
    Extents strides(e.size(), 1);
    std::int64_t step = e[1];
    for (std::size_t axis = e.size(); --axis > 1; step *= e[axis])
      strides[axis] = step;
    strides[0] = step;
    return strides;
  };
  const ConvolutionGeometry& g = c.geometry;
  const Extents x = extents_of(g, {g.batch, g.in}, &WindowAxis::extent);
  const Extents w = extents_of(g, {g.out, g.in / g.groups}, &WindowAxis::window);
  const Extents y = extents_of(g, {g.batch, g.out}, &WindowAxis::out);
  const auto with_options = [&g](auto attributes) {
    return attributes.set_padding(extents_of(g, {}, &WindowAxis::padding))
        .set_stride(extents_of(g, {}, &WindowAxis::stride))
        .set_dilation(extents_of(g, {}, &WindowAxis::dilation));
  };
  Operands operands(graph);
  const auto result = [&](const TensorPointer& gradient, const Extents& extents) {
    TensorPointer sum = gradient;
    if (c.adds) {
      gradient->set_dim(extents).set_stride(channels_last(extents));
      sum = graph.pointwise(gradient, operands.input(c.result, extents, channels_last(extents)),
                            fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    operands.output(sum, c.result, extents, channels_last(extents));
  };
  switch (c.pass) {
    case ConvolutionGraph::Pass::forward: {
      const TensorPointer image = operands.input(c.dtype, x, channels_last(x));
      const TensorPointer filter = operands.input(c.dtype, w, channels_last(w));
      result(graph.conv_fprop(image, filter, with_options(fe::graph::Conv_fprop_attributes())), y);
      return;
    }
    case ConvolutionGraph::Pass::backward_input: {
      const TensorPointer loss = operands.input(c.dtype, y, channels_last(y));
      const TensorPointer filter = operands.input(c.dtype, w, channels_last(w));
      result(graph.conv_dgrad(loss, filter, with_options(fe::graph::Conv_dgrad_attributes())), x);
      return;
    }
    case ConvolutionGraph::Pass::backward_weight: {
      const TensorPointer loss = operands.input(c.dtype, y, channels_last(y));
      const TensorPointer image = operands.input(c.dtype, x, channels_last(x));
      result(graph.conv_wgrad(loss, image, with_options(fe::graph::Conv_wgrad_attributes())), w);
      return;
    }
  }
}

bool needs_f32(const ConvolutionGraph& c) {
  return c.dtype == DType::f32 && !c.tf32;
}

void narrow(Graph& /*graph*/, const AttentionGraph& /*attention*/) {}

// Keeps those of the heuristics' plans that keep our promises.
void narrow(Graph& graph, const ConvolutionGraph& c) {
  std::vector<fe::NumericalNote_t> refused{fe::NumericalNote_t::NONDETERMINISTIC,
                                           fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
                                           fe::NumericalNote_t::FFT, fe::NumericalNote_t::WINOGRAD};
  if (needs_f32(c)) {
    refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
    refused.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
  }
  graph.deselect_numeric_notes(refused);
  graph.deselect_workspace_greater_than(static_cast<std::int64_t>(c.workspace_limit));
}

// A graph before it has a plan: a cudnn-frontend Graph whose proposed engine configurations can be
// counted before one is built.
class Proposal : public Graph {
 public:
  // From definition to checked support; the error of the first step that fails.
  fe::error_t make(const CudnnGraph& key, cudnnHandle_t handle) {
    const auto* const attention = std::get_if<AttentionGraph>(&key);
    if (attention != nullptr && attention->soft_cap > 0)
      return {fe::error_code_t::GRAPH_NOT_SUPPORTED, "our graph has no soft cap of the scores"};
    if (attention != nullptr && attention->sequences > 0) {
      // Their workspace would grow with the number of sequences times the longest one's length.
      if (cudnnGetVersion() < 92500 || attention->size % 16 != 0)
        return {fe::error_code_t::GRAPH_NOT_SUPPORTED,
                "sequences of several lengths need cuDNN 9.25 and heads in sixteens"};
    }
    set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    std::visit([&](const auto& each) { define(*this, each); }, key);
    if (fe::error_t status = validate(); status.is_bad()) return status;
    if (fe::error_t status =
            handle != nullptr ? build_operation_graph(handle) : build_operation_graph();
        status.is_bad()) {
      return status;
    }
    // Of engines without tensor cores the heuristics of 9.28 know none for some convolutions.
    std::vector<fe::HeurMode_t> modes{fe::HeurMode_t::A};
    const auto* const convolution = std::get_if<ConvolutionGraph>(&key);
    if (convolution != nullptr && needs_f32(*convolution))
      modes.push_back(fe::HeurMode_t::FALLBACK);
    if (fe::error_t status = create_execution_plans(modes); status.is_bad()) return status;
    std::visit([&](const auto& each) { narrow(*this, each); }, key);
    return check_support();
  }

  [[nodiscard]] CudnnOffer offer() {
    CudnnOffer result;
    for (std::int64_t i = 0; i < get_execution_plan_count(); ++i) {
      if (plans.check_support_at_index(i).is_bad() || result.candidates++ > 0) continue;
      check(plans.get_name_at_index(i, result.engine), "Execution_plan_list::get_name_at_index");
      std::int64_t bytes = 0;
      check(fe::detail::get_workspace_size(plans.get_barred_engine_configs().front(), bytes),
            "get_workspace_size");
      result.workspace_bytes = static_cast<std::size_t>(bytes + get_fe_workspace_size_subtree());
    }
    return result;
  }
};

// The graphs that can serve a request, best first.
std::vector<CudnnGraph> choices(const CudnnGraph& graph) {
  std::vector<CudnnGraph> result{graph};
  if (const auto* const c = std::get_if<ConvolutionGraph>(&graph);
      c && c->result != c->dtype && !c->adds) {
    ConvolutionGraph rounded = *c;
    rounded.result = c->dtype;
    result.emplace_back(rounded);
  }
  if (const auto* const a = std::get_if<AttentionGraph>(&graph); a && a->part.f32) {
    AttentionGraph rounded = *a;
    rounded.part.f32 = false;
    result.emplace_back(rounded);
  }
  return result;
}

// One per GPU. A cuDNN handle has one stream at a time, hence the lock around each enqueue.
struct Library {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  std::map<CudnnGraph, std::unique_ptr<CudnnPlan>> plans;
};

class Plan final : public CudnnPlan {
 public:
  Plan(Library& library, std::unique_ptr<Graph> graph, const CudnnGraph& key)
      : library_(library), graph_(std::move(graph)) {
    const auto* const convolution = std::get_if<ConvolutionGraph>(&key);
    const auto* const attention = std::get_if<AttentionGraph>(&key);
    result_ = convolution ? convolution->result : attention->dtype;
    if (attention && attention->part.f32) result_ = DType::f32;
    std::int64_t bytes = 0;
    check(graph_->get_workspace_size(bytes), "Graph::get_workspace_size");
    workspace_bytes_ = static_cast<std::size_t>(bytes);
  }

  [[nodiscard]] std::size_t workspace_bytes() const override { return workspace_bytes_; }
  [[nodiscard]] DType result() const override { return result_; }

  void run(Stream& stream, std::span<void* const> operands, void* workspace) const override {
    std::unordered_map<std::int64_t, void*> pointers;
    for (void* const operand : operands)
      pointers.emplace(static_cast<std::int64_t>(pointers.size()), operand);
    const std::lock_guard lock(library_.mutex);
    check(cudnnSetStream(library_.handle, CudaStream::of(stream).handle()), "cudnnSetStream");
    check(graph_->execute(library_.handle, pointers, workspace), "Graph::execute");
  }

 private:
  Library& library_;
  std::unique_ptr<Graph> graph_;
  std::size_t workspace_bytes_ = 0;
  DType result_;
};

Library& library_of_current_gpu() {
  // Never destroyed: at exit the driver may unload before static objects are destroyed.
  static auto& libraries = *new std::map<int, Library>;
  static std::mutex mutex;
  int gpu = 0;
  TRIREME_CUDA(cudaGetDevice(&gpu));
  const std::lock_guard lock(mutex);
  Library& library = libraries[gpu];
  if (library.handle == nullptr) {
    (void)cudnn_version();
    check(cudnnCreate(&library.handle), "cudnnCreate");
  }
  return library;
}

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The kernels of attention deserve a line in every run; there are dozens of convolutions.
void log_plan(const CudnnGraph& graph, const CudnnPlan& plan) {
  const bool attention = std::holds_alternative<AttentionGraph>(graph);
  log::get("ops").log(attention ? spdlog::level::info : spdlog::level::debug,
                      "cuDNN {} runs {} with {} bytes of scratch", version_text(cudnnGetVersion()),
                      to_string(graph), plan.workspace_bytes());
}

}  // namespace

std::string to_string(const CudnnGraph& graph) {
  if (const auto* const a = std::get_if<AttentionGraph>(&graph)) {
    const bool forward = a->pass == AttentionGraph::Pass::forward;
    return fmt::format("attention_{} {} ({}, {}, {} heads of {}, {} of keys){}{}{}{}{}{}",
                       forward ? "forward" : "backward", name_of(a->dtype), a->batch, a->length,
                       a->heads, a->size, a->kv_heads, a->causal ? "" : " full",
                       a->window > 0 ? fmt::format(" window {}", a->window) : "",
                       a->soft_cap > 0 ? fmt::format(" soft cap {}", a->soft_cap) : "",
                       a->sequences > 0 ? fmt::format(" {} documents", a->sequences) : "",
                       a->part.queries > 0 ? fmt::format(" last {}{}", a->part.queries,
                                                         a->part.f32 ? " to f32" : "")
                                           : "",
                       !forward && a->deterministic ? " deterministic" : "");
  }
  const auto& c = std::get<ConvolutionGraph>(graph);
  const ConvolutionGeometry& g = c.geometry;
  constexpr std::array<std::string_view, 3> passes{"forward", "backward_input", "backward_weight"};
  const auto along = [&g](std::int64_t WindowAxis::*value) {
    return Shape(extents_of(g, {}, value)).to_string();
  };
  const auto tensor = [&g](std::int64_t first, std::int64_t WindowAxis::*value,
                           std::int64_t channels) {
    Extents extents = extents_of(g, {first}, value);
    extents.push_back(channels);
    return Shape(extents).to_string();
  };
  return fmt::format(
      "convolution_{} {}{} to {}{} x{} w{} stride {} padding {}{}{}",
      passes[static_cast<std::size_t>(c.pass)], name_of(c.dtype), c.tf32 ? " as tf32" : "",
      name_of(c.result), c.adds ? ", added," : "", tensor(g.batch, &WindowAxis::extent, g.in),
      tensor(g.out, &WindowAxis::window, g.in / g.groups), along(&WindowAxis::stride),
      along(&WindowAxis::padding), g.dilated() ? " dilation " + along(&WindowAxis::dilation) : "",
      g.groups > 1 ? fmt::format(" in {} groups", g.groups) : "");
}

namespace linked {

std::string cudnn_version() {
  const std::size_t found = cudnnGetVersion();
  // Minor versions of one major version are compatible upwards only.
  if (found / 10000 != CUDNN_MAJOR || found < CUDNN_VERSION) {
    fail(ExitCode::config,
         "cuDNN {} was found at run time, but this program was compiled with {}; use {} or a later "
         "{}.x, or build again with the installed version",
         version_text(found), version_text(CUDNN_VERSION), version_text(CUDNN_VERSION),
         CUDNN_MAJOR);
  }
  return version_text(found);
}

const CudnnPlan* cudnn_plan(const CudnnGraph& graph) {
  Library& library = library_of_current_gpu();
  const std::lock_guard lock(library.mutex);
  const auto [at, is_new] = library.plans.try_emplace(graph);
  if (!is_new) return at->second.get();
  fe::error_t status;
  for (const CudnnGraph& choice : choices(graph)) {
    auto built = std::make_unique<Proposal>();
    status = built->make(choice, library.handle);
    if (status.is_good()) status = built->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
    if (status.is_bad()) continue;
    at->second = std::make_unique<Plan>(library, std::move(built), choice);
    log_plan(choice, *at->second);
    return at->second.get();
  }
  const auto* const convolution = std::get_if<ConvolutionGraph>(&graph);
  log::get("ops").info("cuDNN has no plan for {}, {}: {}", to_string(graph),
                       convolution != nullptr && convolution->adds
                           ? "the sum is a kernel of its own"
                           : "own kernels run it",
                       first_line(status));
  return nullptr;
}

TRIREME_CUDA_PROVIDES(ops::cuda, cudnn_version);
TRIREME_CUDA_PROVIDES(ops::cuda, cudnn_plan);

}  // namespace linked

CudnnOffer cudnn_offer(const CudnnGraph& graph, int compute_capability,
                       const std::string& device_properties) {
  Proposal proposed;
  const auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize({device_properties.begin(), device_properties.end()}),
        "DeviceProperties::deserialize");
  proposed.set_device_properties(device).set_sm_version(compute_capability);
  if (fe::error_t status = proposed.make(graph, nullptr); status.is_bad()) {
    CudnnOffer none;
    none.refusal = status.get_message();
    return none;
  }
  return proposed.offer();
}

}  // namespace trireme::ops::cuda
