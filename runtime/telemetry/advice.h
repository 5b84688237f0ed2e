// SPDX-License-Identifier: Apache-2.0
// What a user can do about what a run reports. Each advice is a row of one table with the runs that
// it fits, so that nobody is told to raise what is off or to use fewer ranks than one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// What of a run decides which advice fits it.
struct RunFacts {
  int ranks = 1;
  int data = 1, tensor = 1, pipeline = 1;  // of the mesh
  int zero = 0;
  bool zero_bubble = false;  // the pipeline's schedule
  bool on_cpu = true;
  // Of the host where ranks have the fewest cores each: CPU only.
  int host_ranks = 1, host_cores = 1;
  std::int64_t data_workers = 1;
  std::int64_t eval_every = 0;    // 0: only after the last step
  std::int64_t eval_batches = 0;  // 0: the whole set
  std::int64_t warmup_steps = 0;
  double clip_norm = 0;  // 0: no clipping
  std::int64_t checkpoint_every = 0;
  bool checkpoint_async = true;
  bool full_recompute = false;
  std::int64_t global_batch = 0;  // samples; 0: not known
  std::int64_t micro_batch = 0;   // the same
  bool uneven_batch = false;      // data ranks hold different numbers of micro-batches
  int hosts = 0;                  // 0: not known
  // Cores that other programs used on the host where they used most; below 0: not known.
  double other_programs = -1;
  friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

// Of decoded chunks the share that had been decoded before, from which on the cache is too small.
inline constexpr double notable_decoded_again = 0.4;

// What raising a batch is marked with: the run's losses would be others.
inline constexpr std::string_view changes_training = "changes the training";

// Whether ranks compute on cores of which there are fewer.
[[nodiscard]] bool share_cores(const RunFacts& facts);

enum class Trouble : std::uint8_t {
  exposed_comm,
  late_messages,  // of one rank
  bubble,
  uneven_stages,  // of the pipeline
  data_wait,
  small_cache,        // data_wait while most chunks are decoded again
  data_wait_of_rank,  // of one rank only
  straggler,
  uneven_batch,     // data ranks hold different numbers of micro-batches
  no_core,          // of all ranks alike
  no_core_of_rank,  // of one rank only
  checkpoint,
  checkpoint_of_rank,  // of one rank only
  evaluation,
  other,
  non_finite  // losses or gradients
};

struct Advice {
  Trouble trouble;
  bool (*fits)(const RunFacts&);
  std::string_view text;  // an imperative without a full stop
};

[[nodiscard]] std::span<const Advice> all_advice();

// Those that fit: "a, b or c"; empty where none does.
[[nodiscard]] std::string advice_for(Trouble trouble, const RunFacts& facts);

}  // namespace trireme
