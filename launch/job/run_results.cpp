// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_results.h"

#include <algorithm>
#include <iterator>

#include "launch/job/libraries.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/names.h"
#include "runtime/checkpoint/weights.h"

namespace trireme {
namespace {

// Parameters or values that go with them, whole, on rank 0. Collective.
std::vector<WholeTensor> gather(Session& session, const OwnedValues& owned, bool with_statistics) {
  return gather_whole(*session.device, session.mesh, *session.streams.comm, session.model->params(),
                      session.placed_params(), owned, with_statistics);
}

std::vector<WholeTensor> gather_weights(Session& session) {
  const ParamStore& params = session.model->params();
  return gather(
      session, [&](const Bucket& bucket) { return params.owned_master(bucket); }, true);
}

// The part of an arena that this rank owns. Averages exist only where the arenas are whole.
std::vector<WholeTensor> gather_average(Session& session, const AverageWeights& average) {
  const ParamLayout& layout = session.model->params().layout();
  const auto owned = [&](const Bucket& bucket) {
    return average.values().range(layout.slice_first(bucket), layout.slice_count(bucket));
  };
  return gather(session, owned, true);
}

std::string optimizer_digest(Session& session, const Optimizer& optimizer) {
  const ParamLayout& layout = session.model->params().layout();
  std::vector<WholeTensor> all;
  for (const Tensor& moments : {optimizer.first_moments(), optimizer.second_moments()}) {
    if (moments.empty()) continue;
    auto part = gather(
        session,
        [&](const Bucket& bucket) {
          return moments.range(bucket.owned, layout.slice_count(bucket));
        },
        false);
    std::ranges::move(part, std::back_inserter(all));
  }
  return digest_of(all);
}

}  // namespace

void write_results(Session& session, const TrainingState& trained, double final_loss,
                   const Reporter* reporter) {
  const AverageWeights& average = trained.average;
  const std::map<std::string, std::string> metadata{
      {"format", "trireme"},
      {"version", version_text()},
      {"step", fmt::format("{}", session.config.train.steps)}};
  const auto weights = gather_weights(session);
  const auto averages =
      average.enabled() ? gather_average(session, average) : std::vector<WholeTensor>{};
  const bool layout = session.config.reproducibility == "layout";
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
