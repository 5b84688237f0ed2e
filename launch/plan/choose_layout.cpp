// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/choose_layout.h"

#include <algorithm>
#include <vector>

#include "launch/plan/layout_search.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/comm/watchdog/watched.h"

namespace trireme {
namespace {

const double default_timeout_seconds = ParallelConfig{}.timeout_seconds;

void check_device(const Config& given, const Environment& here, const plan::Hardware& hardware,
                  const Provenance& where) {
  const DeviceChoice found = here.gpus > 0 ? DeviceChoice::cuda : DeviceChoice::cpu;
  const std::string_view type =
      name_of(given.device.type == DeviceChoice::automatic ? found : given.device.type);
  const std::string_view described = name_of(described_device(hardware));
  if (type == described) return;
  fail(ExitCode::config,
       "{}: {} describes a machine of device.type: {}, but this job computes on {}; name a file "
       "that describes this machine",
       where.describe("parallel.hardware"), given.parallel.hardware, described, type);
}

Config search(const RankProcess& process, const Config& given, const Provenance& where) {
  if (given.parallel.hardware.empty()) {
    fail(ExitCode::config,
         "{}: true needs parallel.hardware, a description of the machine; see configs/hardware, or "
         "use search: false",
         where.describe("parallel.search"));
  }
  const plan::Hardware hardware = plan::load_hardware(given.parallel.hardware);
  check_device(given, process.environment(), hardware, where);
  const int ranks = process.mpi.size();
  LayoutSearch search(given, process.environment(), hardware);
  const auto best = search.fastest(1);
  if (best.empty()) {
    fail(ExitCode::config,
         "{}: none of {} layouts of {} ranks fits into the {} of {}; use more ranks, or a smaller "
         "model",
         where.describe("parallel.search"), search.tried(), ranks,
         size_text(static_cast<std::uint64_t>(hardware.device.memory_bytes)), hardware.name);
  }
  const LayoutChoice choice = choice_of(best[0].config);
  log::get("plan").info(
      "the fastest of {} layouts that fits, {:.1f} ms a step and {} a rank as predicted: {}",
      search.tried(), 1e3 * best[0].step.total, size_text(memory_needed(best[0], hardware)),
      as_flags(given, choice));
  return with_layout(given, choice);
}

}  // namespace

Config choose_layout(const RankProcess& process, const Config& given, const Provenance& where) {
  // Rank 0's search may take longer than a step's timeout.
  const double limit = given.parallel.timeout_seconds;
  const auto world =
      make_watched(process.mpi.world(),
                   {.deadline_seconds = limit > 0 ? std::max(limit, default_timeout_seconds) : 0,
                    .directory = {}});
  const std::string text =
      world->rank() == 0 ? to_yaml(search(process, given, where)) : std::string();
  return parse_config(broadcast_text(*world, text, 0), "the layout that was searched", {});
}

namespace {

using Remedies = std::vector<std::string>;

// Activations and batches grow with the micro-batch.
void add_micro_batch(Remedies& advice, const Config& config, const OutOfMemory& lack) {
  const std::int64_t now = config.train.micro_batch;
  const std::int64_t of_rank =
      config.train.global_batch / std::max<std::int64_t>(1, config.parallel.data);
  const double fitting =
      static_cast<double>(now) * static_cast<double>(lack.room) / static_cast<double>(lack.bytes);
  for (auto batch = std::min(now - 1, static_cast<std::int64_t>(fitting)); batch >= 1; --batch) {
    if (of_rank % batch != 0) continue;
    advice.push_back(fmt::format("train.micro_batch: {} (now {}) would fit", batch, now));
    return;
  }
}

// The stage of ZeRO from which data ranks share out what has this role.
void add_zero(Remedies& advice, const Config& config, const OutOfMemory& lack, std::int64_t stage) {
  if (config.parallel.zero >= stage) return;
  const auto ranks =
      static_cast<std::size_t>(std::max<std::int64_t>(1, config.parallel.data_ranks()));
  const bool fits = lack.bytes / ranks < lack.room;
  advice.push_back(fmt::format(
      "parallel.zero: {} shards the {} over data-parallel ranks{}", stage, name_of(lack.role),
      fits ? fmt::format(": {} would fit", ranks)
           : fmt::format(", of which {} would fit",
                         (lack.bytes + lack.room - 1) / std::max<std::size_t>(1, lack.room))));
}

}  // namespace

std::string memory_advice(const Config& config, const OutOfMemory& lack) {
  Remedies advice;
  switch (lack.role) {
    case MemoryRole::parameters:
      add_zero(advice, config, lack, 3);
      break;
    case MemoryRole::gradients:
      add_zero(advice, config, lack, 2);
      break;
    case MemoryRole::optimizer:
      add_zero(advice, config, lack, 1);
      break;
    case MemoryRole::activations:
      add_micro_batch(advice, config, lack);
      if (config.train.recompute != Recompute::full)
        advice.push_back(fmt::format("train.recompute: full (now {}) keeps only the blocks' inputs",
                                     name_of(config.train.recompute)));
      break;
    case MemoryRole::staging:
    case MemoryRole::workspace:
    case MemoryRole::other:
      add_micro_batch(advice, config, lack);
      break;
  }
  advice.emplace_back(
      "more parallel.tensor, parallel.spatial or parallel.pipeline ranks split the model further");
  return fmt::format("; {}", fmt::join(advice, "; "));
}

}  // namespace trireme
