// SPDX-License-Identifier: Apache-2.0
// Attention of sequences that are cut over ranks (nn/context_split.h), in steps between which the
// blocks of a sequence exchange rows: every step runs for all of a rank's blocks before the next.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/nn/layer.h"
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/elementwise/copy_boxes.h"

namespace trireme {

// Of a block of sequences; V tensor blocks are local, each with its own heads.
struct AttentionTensors {
  Tensor qkv{};           // (V, B, t, (heads + 2 kv_heads) * D)
  Tensor out{}, lse{};    // (V, B, t, heads * D), (V, B, heads, t)
  Tensor dqkv{}, dout{};  // in backward
  std::function<ops::AttentionOptions(std::int64_t)> options{};  // of a tensor block
  std::function<Tensor(std::int64_t)> dsinks{};                  // likewise; may return nothing
};

class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  ContextAttention(const ContextAttention&) = delete;
  ContextAttention& operator=(const ContextAttention&) = delete;

  [[nodiscard]] virtual int forward_steps() const = 0;
  [[nodiscard]] virtual int backward_steps() const = 0;
  // Before the first step of forward and of backward: qkv is there.
  virtual void begin(const Context& context, const AttentionTensors& block) const = 0;
  // The last step completes out and lse, or dqkv.
  virtual void forward(const Context& context, int step, const AttentionTensors& block) const = 0;
  virtual void backward(const Context& context, int step, const AttentionTensors& block) const = 0;

 protected:
  ContextAttention() = default;
};

// `options` and `size` are those of a tensor block's heads.
[[nodiscard]] std::unique_ptr<ContextAttention> make_context_attention(
    Blueprint& blueprint, const ops::AttentionOptions& options, std::int64_t size);

}  // namespace trireme
