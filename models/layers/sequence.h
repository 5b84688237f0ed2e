// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/layers/batch_norm.h"
#include "models/layers/convolution.h"
#include "models/layers/transposed_convolution.h"
#include "models/spatial/field_input.h"

namespace trireme {

// Ops on images, one after the other. Keeps the output of each but the last.
class Sequence {
 public:
  // The first op reads `input`.
  Sequence(Blueprint& blueprint, const Shape& input) : blueprint_(&blueprint), shape_(input) {}

  // The first op of a chain reads the batch's images of this size in the compute dtype, without an
  // input gradient.
  Sequence& of_batch(std::int64_t height, std::int64_t width, std::int64_t channels);
  // Each appends an op, declared under this name.
  Sequence& convolution(std::string_view name, std::int64_t outputs, std::int64_t window,
                        std::int64_t stride, const FilterOptions& filter);
  Sequence& transposed(std::string_view name, const Shape& output, std::int64_t window,
                       const TransposedOptions& options);
  Sequence& norm(std::string_view name, bool relu = true);
  Sequence& relu();
  // The sum of a 3x3 convolution of the output so far, "<name>.up", and one of a skip,
  // "<name>.skip": that of their joined channels, without joining them.
  Sequence& with_skip(std::string_view name, std::string_view skip, std::int64_t outputs,
                      const FilterOptions& filter);

  // Of the last op so far.
  [[nodiscard]] const Shape& output_shape() const { return shape_; }
  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // Overwrites what it kept by its gradients, and dy if the last op is a norm. dx may be x if the
  // first op is a convolution; an empty one skips the input gradient.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;

 private:
  struct Relu {
    static void forward(const Context& context, const Tensor& y, const Tensor& x);
    static void backward(const Context& context, const Tensor& dx, const Tensor& dy,
                         const Tensor& x);
  };
  struct WithSkip {
    Convolution of_up, of_skip;
    SkipId skip;
    Activation part;  // of_skip's output

    void forward(const Context& context, const Tensor& y, const Tensor& x) const;
    void backward(const Context& context, const Tensor& dx, const Tensor& dy,
                  const Tensor& x) const;
  };
  using Op = std::variant<Convolution, TransposedConvolution, BatchNorm, Relu, WithSkip>;
  Sequence& append(Op op, const Shape& output);

  Blueprint* blueprint_;  // while ops are appended
  Shape shape_;
  std::optional<FieldInput> input_{};  // of_batch
  std::vector<Op> ops_;
  std::vector<Activation> outputs_;  // of all ops but the last
};

// A layer of the chain.
class SequenceLayer final : public Layer {
 public:
  // Appends the ops.
  using Declare = std::function<void(Sequence&)>;
  SequenceLayer(Blueprint& blueprint, const std::string& name, const Declare& declare)
      : SequenceLayer(name, declared(blueprint, declare)) {}

  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    sequence_.forward(context, y, x);
  }
  void backward(const Context& context, const Tensor& x, const Tensor& /*y*/, const Tensor& dy,
                const Tensor& dx) override {
    sequence_.backward(context, dx, dy, x);
  }

 private:
  static Sequence declared(Blueprint& blueprint, const Declare& declare) {
    Sequence sequence(blueprint, blueprint.input());
    declare(sequence);
    return sequence;
  }
  SequenceLayer(const std::string& name, Sequence sequence)
      : Layer(name, sequence.output_shape()), sequence_(std::move(sequence)) {}

  Sequence sequence_;
};

}  // namespace trireme
