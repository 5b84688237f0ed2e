// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/context_attention.h"

namespace trireme {

// ContextMode::heads (Jacobs et al., DeepSpeed Ulysses, 2023): ranks exchange their rows of all
// heads for all rows of some heads, and back. Heads are cut into K blocks; where there are fewer
// key heads, blocks share copies of one, whose gradients are added in f32. Heads do not depend on
// each other, so attention has the bits of whole sequences.
class HeadExchange final : public ContextAttention {
 public:
  HeadExchange(Blueprint& blueprint, const ops::AttentionOptions& options, std::int64_t size);

  [[nodiscard]] int forward_steps() const override { return 2; }
  [[nodiscard]] int backward_steps() const override { return 3; }
  void begin(const Context& context, const AttentionTensors& block) const override;
  void forward(const Context& context, int step, const AttentionTensors& block) const override;
  void backward(const Context& context, int step, const AttentionTensors& block) const override;

 private:
  using Boxes = std::vector<ops::BoxCopy>;
  // Elements of a row that belong to a head block, and their places in the rows of all heads.
  struct Columns {
    std::int64_t to = 0, count = 0;
    std::int64_t first = 0, each = 0;  // head block b's begin at first + b * each
    std::int64_t shared = 1;           // by so many blocks in a row
  };
  // Rows of `width` elements of each head block.
  [[nodiscard]] Boxes pack_boxes(std::int64_t row_width, std::int64_t width,
                                 const std::vector<Columns>& columns, int block) const;
  [[nodiscard]] Boxes order_boxes(std::int64_t width, std::int64_t first, std::int64_t count) const;
  [[nodiscard]] Boxes copy_boxes_of(int block) const;
  [[nodiscard]] Tensor messages(const Context& context, const Activation& of,
                                std::int64_t width) const;
  [[nodiscard]] Tensor arrived(const Context& context, std::int64_t width) const;
  // Messages with rows of `width` elements to the heads' ranks, or back.
  void swap(const Context& context, std::int64_t width, bool back) const;
  // Whether the context's block is this rank's last.
  [[nodiscard]] bool last(const Context& context) const;
  [[nodiscard]] Tensor of_head_block(const Context& context, const Activation& whole,
                                     std::int64_t v) const;
  [[nodiscard]] Tensor lse(const AttentionTensors& block, std::int64_t v) const;
  [[nodiscard]] ops::AttentionOptions of_heads(const Context& context,
                                               const ops::AttentionOptions& all) const;
  [[nodiscard]] Tensor own_heads(const Context& context, const Tensor& values) const;
  void take_gradients(const Context& context, const AttentionTensors& block) const;

  ContextSplit split_;
  std::int64_t tensor_blocks_, samples_, rows_, size_;
  std::int64_t heads_, kv_heads_;          // of all
  std::int64_t own_heads_, own_kv_heads_;  // of a head block
  std::int64_t copies_;                    // of each key head
  std::int64_t narrow_, wide_;             // elements of a head block's row of out and of qkv
  // By block of this rank: qkv and out to and from messages; by copy, keys and values from them.
  std::vector<Boxes> pack_qkv_, pack_out_, pack_dout_, take_out_, take_queries_;
  std::vector<Boxes> take_copies_;
  Boxes take_summed_;
  Boxes order_qkv_, order_both_out_, order_both_dout_, spread_qkv_, spread_out_;
  Activation workspace_{};                  // of backward
  Activation sent_, received_;              // messages
  Activation qkv_, out_, dqkv_{}, dout_{};  // (n, V, B, T, ...): whole sequences of head blocks
  Activation parts_{}, summed_{};           // copies of keys and values; their sum
};

}  // namespace trireme
