// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_results.h"

#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/engine/state/whole_weights.h"

namespace trireme {

void write_results(Session& session, const TrainingState& trained, double final_loss,
                   const Reporter* reporter) {
  const AverageWeights& average = trained.average;
  const auto metadata = weights_metadata(session.config.train.steps);
  const auto weights = gather_weights(session);
  const auto averages =
      average.enabled() ? gather_average(session, average) : std::vector<WholeTensor>{};
  const bool layout = session.config.reproducibility == Reproducibility::layout;
  const std::string state = layout ? optimizer_digest(session, trained.engine.optimizer()) : "";
  if (reporter == nullptr) return;
  save_weights(reporter->directory.weights_path(), weights, metadata);
  if (average.enabled())
    save_weights(reporter->directory.path() + "/" + std::string(averages_name), averages, metadata);
  log::get("train").info("weights written to {}", reporter->directory.weights_path());
  log::get("train").info("final loss {:.4f} (of step {}; exact bits {:a}), weights xxh3 {}{}{}",
                         final_loss, session.config.train.steps, final_loss, digest_of(weights),
                         layout ? ", optimizer state xxh3 " : "", state);
}

void write_time_split(const StepReports& steps, const Reporter& reporter) {
  write_file(reporter.directory.path() + "/time_split.jsonl", steps.splits(), ExitCode::internal);
}

}  // namespace trireme
