// SPDX-License-Identifier: Apache-2.0
// What a user can do about reported problems. Each advice is a row of a table with a condition on
// the run, so that no advice raises a disabled setting or uses fewer ranks than one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// The axis of a mesh whose ranks share layers, or samples (spatial parallelism).
[[nodiscard]] constexpr std::string_view inner_axis(bool cuts_samples) {
  return cuts_samples ? "spatial" : "tensor";
}

// The facts of a run that select its advice.
struct RunFacts {
  int ranks = 1;
  int data = 1, tensor = 1, pipeline = 1;  // of the mesh
  int context = 1;                         // context-parallel ranks
  bool cuts_samples = false;  // tensor: spatial parallelism instead of tensor parallelism
  int zero = 0;
  bool zero_bubble = false;  // the pipeline's schedule
  bool on_cpu = true;
  // Of the host with the fewest cores per rank: CPU only.
  int host_ranks = 1, host_cores = 1;
  std::int64_t data_workers = 1;
  std::int64_t eval_every = 0;    // 0: only after the last step
  std::int64_t eval_batches = 0;  // 0: the whole set
  std::int64_t warmup_steps = 0;
  double clip_norm = 0;  // 0: no clipping
  std::int64_t checkpoint_every = 0;
  bool checkpoint_async = true;
  bool full_recompute = false;
  std::int64_t global_batch = 0;  // samples; 0: unknown
  std::int64_t micro_batch = 0;   // the same
  bool uneven_batch = false;      // data ranks hold different numbers of micro-batches
  int hosts = 0;                  // 0: unknown
  // Cores used by other processes on the host where they used most; below 0: unknown.
  double other_programs = -1;
  friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

// Share of repeatedly decoded chunks above which the cache is too small.
inline constexpr double notable_decoded_again = 0.4;

// Marks advice to raise a batch, which changes the run's losses.
inline constexpr std::string_view changes_training = "changes the training";

// Whether ranks share fewer cores than there are ranks.
[[nodiscard]] bool share_cores(const RunFacts& facts);

enum class Bottleneck : std::uint8_t {
  exposed_comm,
  late_messages,  // of one rank
  bubble,
  uneven_stages,  // of the pipeline
  data_wait,
  small_cache,        // data_wait while most chunks are decoded again
  data_wait_of_rank,  // of one rank only
  straggler,
  unbalanced_experts,
  uneven_batch,     // data ranks hold different numbers of micro-batches
  no_core,          // of all ranks
  no_core_of_rank,  // of one rank only
  checkpoint,
  checkpoint_of_rank,  // of one rank only
  evaluation,
  stopped,  // between starts
  other,
  non_finite  // losses or gradients
};

struct Advice {
  Bottleneck bottleneck;
  bool (*fits)(const RunFacts&);
  std::string_view text;  // an imperative without a full stop
};

[[nodiscard]] std::span<const Advice> all_advice();

// The applicable ones: "a, b or c"; empty if there are none.
[[nodiscard]] std::string advice_for(Bottleneck bottleneck, const RunFacts& facts);

}  // namespace trireme
