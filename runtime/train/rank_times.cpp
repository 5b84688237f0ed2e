// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/rank_times.h"

#include <algorithm>

#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

constexpr std::int64_t values = sizeof(RankStep) / sizeof(double);
constexpr std::int64_t steps_at_once = 1024;  // bounds what rank 0 holds

Tensor tensor_of(const RankStep* steps, std::int64_t count) {
  return {reinterpret_cast<std::byte*>(const_cast<RankStep*>(steps)), DType::f64,
          Shape{count * values}};
}

}  // namespace

RankTimes::RankTimes(std::int64_t steps) {
  constexpr std::int64_t most = 1 << 20;  // longer runs find more as they go
  steps_.reserve(static_cast<std::size_t>(std::min(steps, most)));
}

void RankTimes::add(const StepReport& report) {
  last_step_ = report.step;
  const double idle = report.step_ms - report.forward_ms - report.backward_ms - report.bubble_ms -
                      report.exposed_comm_ms - report.optimizer_ms;
  // Where the host runs ahead of the device, waiting for data may cost the device less.
  steps_.push_back({.period = report.gap_ms + report.step_ms,
                    .step = report.step_ms,
                    .before_reduce = report.step_ms - report.exposed_comm_ms - report.optimizer_ms,
                    .comm_wait = report.exposed_comm_ms + report.stall_ms,
                    .bubble = report.bubble_ms,
                    .data_wait = std::max(0.0, std::min(idle, report.data_wait_ms))});
}

std::string RankTimes::split(const ProcessMesh& mesh) const {
  const std::int64_t count = std::ssize(steps_);
  const int ranks = mesh.shape().size();
  const std::int64_t first = last_step_ + 2 - count;  // as metrics count, from 1
  const HostStream stream;
  std::string text;
  for (std::int64_t begin = 0; begin < count; begin += steps_at_once) {
    const std::int64_t part = std::min(steps_at_once, count - begin);
    std::vector<RankStep> all(static_cast<std::size_t>(part * ranks));
    mesh.world().all_gather(*stream, tensor_of(steps_.data() + begin, part),
                            tensor_of(all.data(), part * ranks));
    if (mesh.world().rank() != 0) continue;
    std::vector<RankStep> of_step(static_cast<std::size_t>(ranks));
    for (std::int64_t step = 0; step < part; ++step) {
      for (int rank = 0; rank < ranks; ++rank)
        of_step[static_cast<std::size_t>(rank)] = all[static_cast<std::size_t>(rank * part + step)];
      text += format_json(split_step(first + begin + step, mesh.shape(), of_step));
    }
  }
  return text;
}

}  // namespace trireme
