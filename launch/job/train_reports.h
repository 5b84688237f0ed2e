// SPDX-License-Identifier: Apache-2.0
// Additions of the command `train` to Engine::run(): the run directory's files besides checkpoints,
// the console and the exporters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/engine/engine.h"
#include "launch/engine/session.h"
#include "launch/job/mllog.h"
#include "launch/job/run_report.h"
#include "launch/job/snapshots.h"
#include "launch/plan/layout_plan.h"
#include "runtime/nn/batch.h"
#include "runtime/telemetry/bottleneck/bottleneck.h"

namespace trireme {

struct ReportRequest {
  std::vector<std::string> command_line;
  std::string requested;                          // for config.user.yaml (requested_config.h)
  bool split_times = false;                       // write time_split.jsonl
  std::chrono::system_clock::time_point began{};  // the process
};

class TrainReports final : public RunObserver {
 public:
  // `planned`: on rank 0. The engine must outlive this.
  TrainReports(Engine& engine, const PlannedStep& planned, ReportRequest request)
      : engine_(engine), planned_(planned), request_(std::move(request)) {}

  void weights_missing(const FoundCheckpoint& end) override;
  RunSinks open(const TrainingStart& start) override;
  void begin() override { snapshots_.emplace(engine_, reporter_.get()); }
  void after_step(std::int64_t done) override { snapshots_->take(done); }
  void digests(std::int64_t done, const std::map<std::string, std::string>& all) override {
    reporter_->certificate.tensors(done, all);
  }
  void saving(std::int64_t done) override;
  void end(const TrainingEnd& ending) override;
  // After a run() that stopped early: informs the exporters.
  void stopped();

 private:
  void write_end(const TrainingEnd& ending);

  Engine& engine_;
  PlannedStep planned_;
  ReportRequest request_;
  std::unique_ptr<Reporter> reporter_;  // null but on rank 0
  std::optional<Snapshots> snapshots_;
  std::optional<MlLog> mllog_;  // likewise
};

// Settings that would have made a run faster, of a run that has ended: those of its loader from
// what its readers did, those of its layout from the planner (launch/plan/neighbours.h).
// Rank 0's has the trials; it alone reads `summary`, of the steps of all ranks with the wall time,
// and `reading`, of its loader. Where messages or a bubble took 2 % of the time, links and matmuls
// are measured first, with nothing of the run in flight. Collective; blocks the host.
[[nodiscard]] std::vector<Trial> advice_of_run(Session& session, const RunFacts& facts,
                                               const RunSummary& summary, const ReadWork& reading);

}  // namespace trireme
