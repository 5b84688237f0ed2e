// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/advice.h"

#include <array>

namespace trireme {
namespace {

using Facts = const RunFacts&;

constexpr double some_core = 0.1;

bool always(Facts) {
  return true;
}
bool layers_over_hosts(Facts run) {
  return run.tensor * run.context > 1 && run.hosts != 1;
}
bool own_threads(Facts run) {
  return !share_cores(run) && run.other_programs >= 0 && run.other_programs < some_core;
}

using enum Bottleneck;
constexpr std::array table = {
    Advice{
        exposed_comm, [](Facts run) { return run.data > 1; },
        "raise train.global_batch (changes the training): gradients are exchanged once per step"},
    Advice{exposed_comm, [](Facts run) { return run.tensor > 1 && !run.cuts_samples; },
           "lower parallel.tensor, whose messages are in every layer"},
    Advice{exposed_comm, [](Facts run) { return run.cuts_samples; },
           "lower parallel.spatial, or raise parallel.spatial_slabs (rounding changes)"},
    Advice{exposed_comm, [](Facts run) { return run.context > 1; },
           "lower parallel.context, whose keys and values are sent in every layer"},
    Advice{exposed_comm, layers_over_hosts,
           "keep tensor groups, or ranks of spatial parallelism, within a host"},
    Advice{exposed_comm, [](Facts run) { return run.zero == 3 && run.data > 1; },
           "lower parallel.zero: 3 gathers parameters in every pass"},
    Advice{exposed_comm, [](Facts run) { return run.ranks > 1; }, "use fewer ranks"},
    Advice{late_messages, [](Facts run) { return run.ranks > 1 && run.hosts != 1; },
           "look at the network of that rank's host: trireme doctor measures every link"},
    Advice{
        late_messages, [](Facts run) { return run.ranks > 1 && run.hosts == 1; },
        "all ranks are on one host, so look at its other processes and at how ranks are bound to "
        "cores"},
    Advice{bubble, [](Facts run) { return run.pipeline > 1; },
           "raise train.global_batch (changes the training) or lower parallel.pipeline"},
    Advice{bubble, [](Facts run) { return run.pipeline > 1 && !run.zero_bubble; },
           "try parallel.schedule: zero-bubble"},
    Advice{uneven_stages, [](Facts run) { return run.pipeline > 1; },
           "trireme plan shows how the layers are cut; if its stages are even, look at the clock, "
           "heat and other processes of that rank's host"},
    Advice{data_wait, always, "raise data.workers or data.prefetch"},
    Advice{data_wait, always, "put the data on faster storage"},
    Advice{small_cache, always,
           "raise data.cache_megabytes: the cache was too small, and chunks were decoded again"},
    Advice{small_cache, always,
           "rewrite the files with one sample per chunk (h5repack -l CHUNK=...)"},
    Advice{data_wait_of_rank, [](Facts run) { return run.ranks > 1; },
           "look at the storage of that rank's host: trireme doctor measures it"},
    Advice{straggler, [](Facts run) { return run.ranks > 1; },
           "look at the clock, heat and other processes of that rank's host: trireme doctor "
           "compares ranks"},
    Advice{
        unbalanced_experts, [](Facts run) { return run.ranks > 1; },
        "raise model.balance_loss, model.sequence_balance_loss or model.balance_rate (changes "
        "the training), or lower parallel.expert: a rank with more experts has a more even load"},
    Advice{uneven_batch, [](Facts run) { return run.uneven_batch; },
           "use a number of data ranks, or a train.global_batch (changes the training), that gives "
           "each rank equally many micro-batches: trireme plan shows them"},
    Advice{no_core, share_cores,
           "ranks share cores: start at most one rank per core, and bind no two to the same core"},
    Advice{no_core, [](Facts run) { return !share_cores(run) && run.other_programs >= some_core; },
           "free these cores, or request your own"},
    Advice{no_core, [](Facts run) { return !share_cores(run) && run.other_programs < 0; },
           "other processes may run on these cores: free them, or request your own"},
    Advice{
        no_core, own_threads,
        "no other process used these cores, so the run's own threads did: lower data.workers, or "
        "start fewer ranks on a host"},
    Advice{no_core_of_rank, [](Facts run) { return run.ranks > 1; },
           "another process may run on that rank's cores, or have a higher priority (nice)"},
    Advice{checkpoint, [](Facts run) { return !run.checkpoint_async; },
           "set checkpoint.async: true, which writes while training goes on"},
    Advice{checkpoint, [](Facts run) { return run.checkpoint_every > 0; },
           "raise checkpoint.every_steps"},
    Advice{checkpoint_of_rank, [](Facts run) { return run.ranks > 1; },
           "look at the storage and the memory of that rank's host: trireme doctor measures them"},
    Advice{evaluation, [](Facts run) { return run.eval_every > 0; }, "raise train.eval_every"},
    Advice{evaluation, [](Facts run) { return run.eval_batches == 0; },
           "limit train.eval_batches: 0 takes the whole set"},
    Advice{evaluation, [](Facts run) { return run.eval_batches > 1; }, "lower train.eval_batches"},
    Advice{other, always, "probably start-up, files or logging, which a longer run hides"},
    Advice{non_finite, always, "lower optimizer.learning_rate"},
    Advice{non_finite, [](Facts run) { return run.warmup_steps > 0; },
           "lengthen lr_schedule.warmup_steps"},
    Advice{non_finite, [](Facts run) { return run.warmup_steps == 0; },
           "set lr_schedule.warmup_steps"},
    Advice{non_finite, [](Facts run) { return run.clip_norm > 0; }, "lower train.clip_norm"},
    Advice{non_finite, [](Facts run) { return run.clip_norm == 0; }, "set train.clip_norm"},
};

}  // namespace

bool share_cores(const RunFacts& facts) {
  return facts.on_cpu && facts.host_ranks > 1 && facts.host_ranks > facts.host_cores;
}

std::span<const Advice> all_advice() {
  return table;
}

std::string advice_for(Bottleneck bottleneck, const RunFacts& facts) {
  std::string text;
  std::size_t last = 0;  // position of the last separator
  for (const Advice& advice : table) {
    if (advice.bottleneck != bottleneck || !advice.fits(facts)) continue;
    if (!text.empty()) {
      last = text.size();
      text += ", ";
    }
    text += advice.text;
  }
  return last > 0 ? text.replace(last, 2, ", or ") : text;
}

}  // namespace trireme
