// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/core_waits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {
namespace {

double sum_of(const std::vector<RunDelay>& threads) {
  double sum = 0;
  for (const RunDelay& thread : threads)
    sum += thread.milliseconds();
  return sum;
}

}  // namespace

void CoreWaits::find_threads() {
  here_.emplace("/proc/thread-self");
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "trireme-comm") messages_.emplace_back(task.path());  // device/cpu/cpu_stream.cpp
    if (name == "trireme-data") data_.emplace_back(task.path());      // data/loader/loader.cpp
  }
}

CoreWaitCount CoreWaits::read() {
  if (!here_) find_threads();
  const auto readers = static_cast<double>(std::max<std::size_t>(data_.size(), 1));
  return {.here = here_->milliseconds(),
          .messages = sum_of(messages_),
          .data = sum_of(data_) / readers};
}

LackOfCores lack_of_cores(double step, const StandstillTimes& still, const CoreTimes& core) {
  const double all = still.sum();
  // The training thread sleeps in these waits: time beyond its sleep is a wait for a core after
  // waking.
  const double asleep = step - core.cpu - core.waits;
  const double awake = std::clamp(all - asleep, 0.0, std::min(core.waits, all));
  const double share = all > 0 ? awake / all : 0.0;
  const auto of = [&](double wait, double others) { return std::min(wait, share * wait + others); };
  return {.work = std::clamp(core.waits - awake, 0.0, std::max(0.0, step - all)),
          .stalls = of(still.stalls, core.messages),
          .reduce = of(still.reduce, core.reduce),
          .data = of(still.data, core.data)};
}

}  // namespace trireme
