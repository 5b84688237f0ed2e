// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/choose_layout.h"

#include <algorithm>

#include "launch/plan/layout_search.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/comm/gather_texts.h"
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
       "{}: {} describes a machine of device.type: {}, and this job computes on {}; name a file "
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

}  // namespace trireme
