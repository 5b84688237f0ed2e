// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/step_reports.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

Tensor bytes_of(std::vector<RankStep>& steps) {
  static_assert(std::is_trivially_copyable_v<RankStep>);
  return {reinterpret_cast<std::byte*>(steps.data()), DType::u8,
          Shape{static_cast<std::int64_t>(steps.size() * sizeof(RankStep))}};
}

}  // namespace

std::optional<SlowRead> slow_read_of(std::span<const RankStep> by_rank) {
  const auto wait = [](const RankStep& rank) { return rank.times[TimePart::data_wait]; };
  const auto longest = std::ranges::max_element(by_rank, {}, wait);
  if (!(wait(*longest) > 0)) return std::nullopt;
  return SlowRead{.rank = static_cast<int>(longest - by_rank.begin()),
                  .wait_ms = wait(*longest),
                  .file = longest->slow_file.file,
                  .seconds = longest->slow_file.seconds,
                  .bytes = longest->slow_file.bytes};
}

void add_waits_for_experts(std::span<Times> times, std::span<const RankStep> by_rank) {
  double rows = 0, milliseconds = 0;
  for (const RankStep& rank : by_rank) {
    rows += rank.experts.own_rows;
    milliseconds += rank.experts.milliseconds;
  }
  if (!(rows > 0)) return;
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    times[rank][TimePart::expert_wait] =
        std::min(times[rank][TimePart::expert_comm],
                 by_rank[rank].experts.behind_rows * milliseconds / rows);
}

std::optional<ExpertTraffic> traffic_of(std::span<const RankStep> by_rank) {
  ExpertPasses all;
  for (const RankStep& rank : by_rank)
    all += rank.experts.passes;
  if (!(all.rows > 0)) return std::nullopt;
  return ExpertTraffic{.passes = static_cast<std::int64_t>(all.passes),
                       .in_rounds = static_cast<std::int64_t>(all.in_rounds),
                       .off_rank = all.off_rank / all.rows,
                       .off_node = all.off_node / all.rows,
                       .rank_load = all.fullest / all.rows};
}

StepReports::StepReports(const ProcessMesh& mesh, MetricsSink* sink, RankLog* ranks,
                         bool keep_splits)
    : mesh_(mesh),
      sink_(sink),
      ranks_(ranks),
      keep_splits_(keep_splits),
      times_(static_cast<std::size_t>(mesh.shape().size())) {}

void StepReports::add(Entry entry) {
  TRIREME_EXPECTS(count_ < waiting_.size(), "{} steps wait for their times", count_);
  waiting_[count_++] = std::move(entry);
  if (mesh_.shape().size() > 1) return;
  const Entry& own = waiting_[0];
  learn(own.metrics.step, {&own.own, 1});
}

void StepReports::learn(std::int64_t step, std::span<const RankStep> by_rank) {
  if (count_ == 0 || waiting_[0].metrics.step != step) return;  // finish() came first
  if (mesh_.world().rank() == 0) {
    StepMetrics& metrics = waiting_[0].metrics;
    metrics.joules = joules_of(by_rank);
    if (std::ranges::any_of(by_rank, [](const RankStep& rank) { return rank.gpu.known; }))
      std::ranges::transform(by_rank, std::back_inserter(metrics.gpus), &RankStep::gpu);
    if (metrics.weight_digest) {
      *metrics.weight_digest = 0;
      for (const RankStep& rank : by_rank)
        *metrics.weight_digest += rank.digest;
    }
    metrics.slow_read = slow_read_of(by_rank);
    metrics.expert_traffic = traffic_of(by_rank);
    std::vector<Times> ranks;
    std::ranges::transform(by_rank, std::back_inserter(ranks), &RankStep::times);
    add_waits_for_experts(ranks, by_rank);
    const StepSplit split = split_step(step, mesh_.shape(), ranks);
    if (keep_splits_) splits_.push_back(split);
    write(waiting_[0], split);
    if (ranks_ != nullptr) {
      times_.assign(times_.size(), {});
      add_to(times_, mesh_.shape(), ranks);
      ranks_->step(waiting_[0].metrics, times_);
    }
  }
  std::move(waiting_.begin() + 1, waiting_.begin() + static_cast<std::ptrdiff_t>(count_),
            waiting_.begin());
  --count_;
}

void StepReports::finish() {
  if (count_ == 0) return;
  const std::size_t steps = count_, ranks = times_.size();
  std::vector<RankStep> own(steps), all(steps * ranks), of_step(ranks);
  for (std::size_t i = 0; i < steps; ++i)
    own[i] = waiting_[i].own;
  const HostStream stream;
  mesh_.world().all_gather(*stream, bytes_of(own), bytes_of(all));
  for (std::size_t i = 0; i < steps; ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      of_step[rank] = all[rank * steps + i];
    learn(waiting_[0].metrics.step, of_step);
  }
}

void StepReports::flush() {
  if (ranks_ != nullptr) ranks_->flush();
}

void StepReports::abandon() noexcept {
  if (mesh_.world().rank() != 0) return;
  try {
    const std::size_t steps = std::exchange(count_, 0);
    for (std::size_t i = 0; i < steps; ++i) {
      waiting_[i].metrics.weight_digest.reset();  // it covers only one rank's part
      write(waiting_[i], split_step(waiting_[i].metrics.step, {}, {&waiting_[i].own.times, 1}));
    }
    flush();
  } catch (const std::exception& error) {  // the run's own error is being raised
    log::get("train").warn("{}", error.what());
  }
}

void StepReports::write(Entry& entry, const StepSplit& split) {
  entry.metrics.times = split.times;
  if (sink_ == nullptr) return;
  sink_->step(entry.metrics);
  if (entry.skipped) sink_->skipped(*entry.skipped);
}

std::string StepReports::splits() const {
  std::string text;
  for (const StepSplit& split : splits_)
    text += format_json(split);
  return text;
}

}  // namespace trireme
