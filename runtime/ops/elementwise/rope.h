// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., 2021), in place on a packed projection.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/common/row_runs.h"

namespace trireme::ops {

// How the angles of a model trained on shorter contexts are scaled.
enum class RopeScaling : std::uint8_t {
  none,
  linear,  // all frequencies over `factor` (Chen et al., 2023)
  // Low frequencies over `factor`, high ones kept, in between a mixture. By turns within the
  // original context: those of less than low_freq_factor are low, of more than high_freq_factor
  // high (Llama 3.1).
  llama3,
  // The same with a linear ramp over the head's elements between these two; queries and keys are
  // scaled by 0.1 ln(factor) + 1, which sharpens the softmax (Peng et al., YaRN, 2023).
  yarn
};

struct RopeOptions {
  std::int64_t heads = 0;     // of queries
  std::int64_t kv_heads = 0;  // of keys and of values; divides `heads`
  double base = 10000.0;      // at t, element i of a head of size D rotates by t * base^(-2i / D)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                  // 1 or more
  double low_freq_factor = 1;         // llama3; YaRN's beta_slow
  double high_freq_factor = 4;        // llama3; YaRN's beta_fast
  std::int64_t original_context = 0;  // of llama3 and yarn
  bool whole_pairs = true;            // yarn's ramp begins and ends at whole elements, outwards
  // (B, T) i32: start of each row's document in its sequence; positions count from there. Absent:
  // from the start of the sequence.
  Tensor document_starts{};
  RowRuns runs{};  // where rows are in their sequence; without spans
};

// qkv(B, T, (heads + 2 kv_heads) * D), D even: all heads' queries, then keys, then values. Rotates
// queries and keys; element i < D / 2 pairs with i + D / 2 ("rotate_half", the order of Llama and
// Hugging Face). A compute dtype, computed in f32. Row t is at its position of the runs, or with
// spans (B, 2) i32 at spans[b][0] + t, below `positions`.
void rope_forward(Stream& stream, const Tensor& qkv, const RopeOptions& options,
                  const Tensor& spans = {}, std::int64_t positions = 0);

// The gradient: rotates dqkv back.
void rope_backward(Stream& stream, const Tensor& dqkv, const RopeOptions& options);

}  // namespace trireme::ops
