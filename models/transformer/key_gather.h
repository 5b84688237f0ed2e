// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/context_attention.h"

namespace trireme {

// ContextMode::gather (Llama 3, 2024): queries stay, and every rank gathers the keys and values of
// a few heads at a time, while it computes with those before. What the rows of a block add to the
// gradients of all keys is one f32 sum; these are added as a tree over blocks. A group has 1 / K of
// the key heads, or one, so that gathered keys take no more memory than a rank's own.
class KeyGather final : public ContextAttention {
 public:
  KeyGather(Blueprint& blueprint, const ops::AttentionOptions& options, std::int64_t size);

  [[nodiscard]] int forward_steps() const override { return groups_; }
  [[nodiscard]] int backward_steps() const override { return groups_ + 1; }
  void begin(const Context& context, const AttentionTensors& block) const override;
  void forward(const Context& context, int step, const AttentionTensors& block) const override;
  void backward(const Context& context, int step, const AttentionTensors& block) const override;

 private:
  using Boxes = std::vector<ops::BoxCopy>;
  [[nodiscard]] std::int64_t tensor_block(int group) const { return group / groups_of_block_; }
  [[nodiscard]] std::int64_t key_head(int group) const {
    return group % groups_of_block_ * key_heads_;
  }
  void find_boxes(const ops::AttentionOptions& options, std::int64_t size);
  [[nodiscard]] Tensor own(const Context& context, int group) const;
  [[nodiscard]] Tensor region(const Context& context, int index) const;
  [[nodiscard]] Tensor gathered(const Context& context, int group) const;
  // 0: keys, 1: values.
  [[nodiscard]] Tensor in_order(const Context& context, int part) const;
  [[nodiscard]] Tensor sums(const Context& context, int group) const;
  void start(const Context& context, int group) const;
  // Makes a group's keys and values available, and starts to gather the next group's.
  void gather(const Context& context, int group) const;
  void sum_gradients(const Context& context, int group) const;
  void take_gradients(const Context& context, int group, const Tensor& dqkv) const;

  ContextSplit split_;
  std::int64_t samples_, rows_;     // of a block
  std::int64_t key_heads_, width_;  // of a group: heads, and elements of a row's keys
  std::int64_t projected_;          // elements of a row of qkv
  int groups_of_block_, groups_;
  std::vector<Boxes> packs_;           // by first key head: qkv to (B, t, keys and values)
  std::vector<Boxes> unpacks_;         // and back
  Boxes order_keys_, order_values_;    // (K, B, t, keys and values) to (B, T, keys) and values
  Boxes spread_keys_, spread_values_;  // and back
  Activation own_;                     // (groups, n, B, t, keys and values)
  // Three of (K, B, t, keys and values): gathered ones of even groups; (2, B, T, width), a group's
  // in order; those of odd groups. Of one rank, only the middle one.
  Activation regions_;
  Activation workspace_{};  // of backward
  // f32: (n, 2, B, T, width) and (n, B, t, keys and values); and one block's in 16 bits.
  Activation partial_{}, taken_{}, rounded_{};
};

}  // namespace trireme
