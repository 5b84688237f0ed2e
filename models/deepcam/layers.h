// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/deepcam/deepcam.h"
#include "models/fields/pixel_loss.h"
#include "models/layers/sequence.h"

namespace trireme {

// PyTorch's kaiming_normal_, and its default for convolutions and their biases.
[[nodiscard]] Init kaiming(std::int64_t fan_in);
[[nodiscard]] Init uniform_over(std::int64_t fan_in);
// Appends a depthwise 3x3 convolution and a 1x1 convolution (Chollet, 2017).
Sequence& separable(Sequence& to, const std::string& name, std::int64_t outputs,
                    std::int64_t stride = 1, std::int64_t dilation = 1);
// Doubles the extents to those of `output`.
Sequence& doubling(Sequence& to, std::string_view name, const Shape& output);

struct XceptionBlockOptions {
  std::int64_t outputs = 0;
  int norms = 3;               // separable convolutions with a norm
  bool grows_first = true;     // the first of them has the outputs, else the last
  std::int64_t stride = 1;     // of one more without a norm, if outputs differ from inputs
  bool relu = true;            // of the sum
  std::int64_t low_level = 0;  // channels of the decoder's skip; 0: none is offered
};

// A branch of separable convolutions, added to the input or, where the channels change, to a 1x1
// convolution and norm of it. The first block also offers "low_level", a 1x1 convolution, norm and
// ReLU of its output: only the decoder needs it, and it is smaller than the output.
class XceptionBlock final : public Layer {
 public:
  XceptionBlock(Blueprint& blueprint, const std::string& name, const XceptionBlockOptions& options);

  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  XceptionBlock(Blueprint& blueprint, const std::string& name, const XceptionBlockOptions& options,
                Sequence branch);

  bool relu_;
  Sequence branch_;
  std::optional<Convolution> shortcut_{};
  BatchNorm norm_;        // of the shortcut's output, or of the branch's if there is no shortcut
  Activation convolved_;  // norm_'s input
  Activation part_;       // the branch's output beside a shortcut; in backward gradients
  std::optional<Activation> dx_branch_{};
  std::optional<Sequence> low_level_{};
  std::optional<SkipId> skip_{};
};

// Atrous spatial pyramid pooling (Chen et al., 2017): convolutions of several dilations and the
// global average, joined by a 1x1 convolution and a norm. A convolution of joined channels is the
// sum of convolutions, so nothing is joined, and the average adds one vector to all pixels.
class DeepCamPyramid final : public Layer {
 public:
  DeepCamPyramid(Blueprint& blueprint, const std::string& name, std::int64_t outputs);

  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  std::vector<Sequence> branches_;
  Sequence of_average_;
  BatchNorm norm_;
  Slabs inputs_, outputs_;
  float share_;              // of one pixel in a sample's average
  Activation sum_;           // norm_'s input
  Activation average_;       // (B, 1, 1, inputs)
  Activation added_;         // (B, 1, 1, outputs): what it adds to each pixel
  Activation vectors_;       // (B, outputs) f32: the same
  Activation wide_vectors_;  // (B, inputs) f32: the average
  SlabParts of_inputs_, of_outputs_;
  Activation part_, dx_part_;  // of a branch
};

// The last transposed convolution gives each pixel's logits.
class DeepCamHead final : public Layer {
 public:
  // Declares "classifier".
  DeepCamHead(Blueprint& blueprint, const DeepCamOptions& options, bool dice);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  void add_limits(ModelLimits& limits) const override { limits.axes = axes_; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  Sequence last_;
  std::vector<Extent> axes_;
  PixelLoss loss_;
  Activation logits_;
  HeadInfo info_;
};

}  // namespace trireme
