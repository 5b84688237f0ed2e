// SPDX-License-Identifier: Apache-2.0
// How a model is declared and run. A Layer reserves its parameters and activations from a Blueprint
// in its constructor; after that all memory is known before any of it is allocated. forward and
// backward only enqueue.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device/arena.h"
#include "runtime/nn/batch.h"
#include "runtime/nn/param.h"

namespace trireme {

// A tensor of a layer: an offset in one of three arenas.
struct Activation {
  enum class Space : std::uint8_t {
    kept,      // lives from forward to backward of a micro-batch: what backward needs
    scratch,   // lives within one forward or backward call of a layer of the chain; those layers
               // share it
    workspace  // lives within one op call; all ops share it
  };
  Space space = Space::scratch;
  std::size_t offset = 0;
  DType dtype = DType::f32;
  Shape shape;
};

// Collects what layers declare. Scopes give parameters their dotted names and let chain layers
// share scratch.
class Blueprint {
 public:
  Blueprint(ParamStore& params, DeviceType device, DType compute, std::int64_t micro_batch)
      : params_(params), device_(device), compute_(compute), micro_batch_(micro_batch) {}

  class Scope {
   public:
    Scope(Blueprint& blueprint, std::string_view name, bool share_scratch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Blueprint& blueprint_;
    std::size_t prefix_length_;
    std::size_t scratch_mark_;
    bool share_scratch_;
  };
  // Until the returned object dies, names get "name." in front.
  [[nodiscard]] Scope scope(std::string_view name) { return {*this, name, false}; }
  // The same for one layer of the chain: scratch reserved inside is given back at its end.
  [[nodiscard]] Scope layer(std::string_view name) { return {*this, name, true}; }

  // spec.name is relative to the current scope.
  ParamId parameter(ParamSpec spec);
  // A parameter declared elsewhere under its full name (tied weights).
  ParamId shared_parameter(const ParamSpec& spec) { return params_.declare(spec); }
  Activation keep(const Shape& shape, DType dtype);
  Activation keep(const Shape& shape) { return keep(shape, compute_); }
  Activation scratch(const Shape& shape, DType dtype);
  Activation scratch(const Shape& shape) { return scratch(shape, compute_); }
  Activation workspace(std::size_t bytes);

  [[nodiscard]] DeviceType device() const { return device_; }
  [[nodiscard]] DType compute() const { return compute_; }
  [[nodiscard]] std::int64_t micro_batch() const { return micro_batch_; }
  [[nodiscard]] const Layout& kept_layout() const { return kept_; }
  [[nodiscard]] const Layout& scratch_layout() const { return scratch_; }
  [[nodiscard]] const Layout& workspace_layout() const { return workspace_; }
  [[nodiscard]] std::string full_name(std::string_view name) const {
    return prefix_ + std::string(name);
  }

 private:
  ParamStore& params_;
  DeviceType device_;
  DType compute_;
  std::int64_t micro_batch_;
  Layout kept_, scratch_, workspace_;
  std::string prefix_;
};

// Told when a parameter's gradient is complete for this micro-batch.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void ready(ParamId id) = 0;
};

// What one forward or backward pass of one micro-batch works with. Owns nothing.
struct Context {
  Stream& stream;
  const ParamStore& params;
  const Arena& kept;
  const Arena& scratch;
  const Arena& workspace;
  const Batch& batch;
  Tensor rng{};                   // (2) u64: seed, step
  Tensor losses{};                // (targets of the micro-batch) f32: written by the head
  Tensor hits{};                  // the same shape: 1 where the prediction is right
  bool training = false;          // dropout, augmentation, batch statistics; else evaluation
  float gradient_scale = 1.0F;    // 1 / targets in the global batch
  float statistic_weight = 1.0F;  // 1 / micro-batches in the global batch
  float label_smoothing = 0.0F;
  GradientSink* gradients = nullptr;  // null: nobody waits for single gradients

  [[nodiscard]] Tensor operator()(const Activation& a) const {
    const Arena& arena = a.space == Activation::Space::kept      ? kept
                         : a.space == Activation::Space::scratch ? scratch
                                                                 : workspace;
    return arena.at(a.offset, a.dtype, a.shape);
  }
  void ready(ParamId id) const {
    if (gradients != nullptr) gradients->ready(id);
  }
};

// One element of a model's chain: between two of them a pipeline may cut.
class Layer {
 public:
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Of the tensor handed to the next layer; rank 0 for a loss head, which hands on nothing.
  [[nodiscard]] const Shape& output_shape() const { return output_shape_; }
  // Multiply-adds count as two. For one micro-batch; backward costs about twice this.
  [[nodiscard]] virtual double forward_flops() const = 0;
  // True when backward turns dy into dx in the same memory.
  [[nodiscard]] virtual bool backward_in_place() const { return false; }

  virtual void forward(const Context& context, const Tensor& x, const Tensor& y) = 0;
  // x and y are forward's. dx is overwritten (or turned from dy in place); the first layer gets an
  // empty dx, a head an empty dy. Parameter gradients are accumulated.
  virtual void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) = 0;

 protected:
  Layer(std::string name, Shape output_shape)
      : name_(std::move(name)), output_shape_(output_shape) {}

 private:
  std::string name_;
  Shape output_shape_;
};

}  // namespace trireme
