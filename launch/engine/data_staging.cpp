// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/data_sets.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

constexpr double bytes_per_gigabyte = 1e9;

// If a rank raises an error, all raise it, with its host.
void together(Communicator& world, const std::function<void()>& action) {
  static_cast<void>(gather_or_raise(world, [&] {
    with_context(host_name(), action);
    return std::string();
  }));
}

// A number equal on all ranks and unlike other jobs'.
std::uint64_t number_of_job(Communicator& world) {
  std::random_device device;
  std::string digits;
  if (world.rank() == 0) digits = fmt::format("{}{}", device() % 1'000'000'000 + 1, device());
  digits = broadcast_text(world, digits, 0);
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

void announce(const DataConfig& data, const StagingPlan& plan) {
  log::get("data").info(
      "data.stage: {} file(s), {:.1f} MB, are copied to {} on each host during the run{}",
      plan.files, 1e-6 * static_cast<double>(plan.bytes), data.stage,
      plan.files_left_out == 0
          ? ""
          : fmt::format("; {} file(s) are read in place: {}", plan.files_left_out, plan.left_out));
}

}  // namespace

std::unique_ptr<Staging> start_staging(Communicator& world, const DataConfig& data,
                                       const std::vector<const Dataset*>& sets) {
  if (data.stage.empty()) return nullptr;
  const std::vector<std::string> hosts = gather_texts(world, host_name());
  const auto rank = static_cast<std::size_t>(world.rank());
  const bool first_of_host = std::ranges::find(hosts, hosts[rank]) - hosts.begin() == world.rank();
  const std::uint64_t job = number_of_job(world);
  std::vector<StageSource> sources;
  std::optional<StageDirectory> directory;
  together(world, [&] {
    sources = stage_sources(sets);
    if (!first_of_host) return;
    directory.emplace(data.stage);
    const StagingPlan plan = directory->reserve(
        sources,
        static_cast<std::uint64_t>(std::llround(data.stage_gigabytes * bytes_per_gigabyte)));
    if (!plan.problem.empty())
      log::get("data").warn("data.stage: {}: files without a copy are read in place: {}",
                            host_name(), plan.problem);
    if (rank == 0) announce(data, plan);
  });
  together(world, [&] {
    if (!directory) directory.emplace(data.stage);
  });
  return std::make_unique<Staging>(std::move(*directory), std::move(sources), job, rank == 0);
}

}  // namespace trireme
