// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/heads/head_loss.h"
#include "models/layers/linear_layer.h"
#include "models/layers/norm.h"

namespace trireme {

// Which rows of a sample a head reads. last: of its text, before the padding.
enum class RowPooling : std::uint8_t { all, first, last, mean };

struct RowHeadOptions {
  HeadChoice head{};
  std::int64_t context = 1, hidden = 1;  // rows of a sample and their width
  RowPooling pooling = RowPooling::first;
  std::optional<NormStyle> norm{};  // before pooling: "final_norm"
  float norm_gain = 1;
  bool pooler = false;  // a square layer with tanh after pooling, as BERT has: "pooler"
  double dropout = 0;   // of the classifier's input
  bool bias = true;     // of the classifier
  Init init{};
  ops::MixOptions mix{};
};

// The head of a transformer that classifies or measures samples or tokens: norm, pooling over rows,
// pooler, dropout, one linear layer "classifier" (outputs, C), and the loss. The local rows of (B,
// T, C) -> losses of the context, on every rank: all tensor ranks compute the few logits whole.
class RowHead final : public Layer {
 public:
  RowHead(Blueprint& blueprint, const RowHeadOptions& options);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // All rows, normalised; x itself where nothing needs to be computed.
  [[nodiscard]] Tensor gathered(const Context& context, const Tensor& x) const;
  void pool(const Context& context, const Tensor& pooled, const Tensor& rows) const;
  // The gradient of all rows from that of the pooled ones; the same memory if all are pooled.
  void spread(const Context& context, const Tensor& drows, const Tensor& dpooled) const;
  void drop(const Context& context, const Tensor& to, const Tensor& from) const;

  RowSplit rows_;
  RowHeadOptions options_;
  bool split_backward_;
  std::uint64_t dropout_site_;
  std::optional<Norm> norm_;
  std::optional<Linear> pooler_;
  Linear classifier_;
  HeadLoss loss_;
  HeadInfo info_;
  Activation whole_{}, dwhole_;  // (B, T, C): all rows, after the norm
  // (N, C), N = B, or B * T of all rows: pooled, behind the pooler, behind dropout; those of a step
  // that is left out are the ones before it.
  Activation pooled_, activated_, features_;
  Activation dfeatures_, dpooled_;
};

}  // namespace trireme
