// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/model_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/plan/layout_plan.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::report {

ModelFigures model_figures(const Config& config) {
  ModelFigures figures;
  const PlannedStep planned = planned_step(config);
  figures.flops_per_item = planned.flops_per_item;
  figures.peak_flops = planned.peak_flops;
  BytesByRole most{};
  for (const StageMemory& stage : plan_stages_memory(config)) {
    const BytesByRole bytes = stage.held.on_device(
        config.device.type == DeviceChoice::cuda ? DeviceType::cuda : DeviceType::cpu);
    for (std::size_t role = 0; role < bytes.size(); ++role)
      most[role] = std::max(most[role], bytes[role]);
  }
  for (std::size_t role = 0; role < most.size(); ++role)
    figures.memory.push_back(
        {.name = std::string(name_of(static_cast<MemoryRole>(role))), .planned = most[role]});
  return figures;
}

void add_measured_memory(ModelFigures& figures, const std::string& directory) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 20;
  const auto text =
      read_file_if_exists(RunDirectory::memory_in(directory), largest, ExitCode::data);
  if (!text) return;
  const nlohmann::json measured = json_or_discarded(*text);
  if (!measured.is_object()) return;
  for (MemoryUse& use : figures.memory) {
    const auto found = measured.find(use.name);
    if (found != measured.end() && found->is_number_unsigned())
      use.measured = found->get<std::uint64_t>();
  }
}

}  // namespace trireme::report
