// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_results.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/engine/state/loaded_weights.h"
#include "launch/engine/state/starting_point.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/gather.h"

namespace trireme {
namespace {

std::vector<WholeTensor> stored_tensors(const FoundCheckpoint& checkpoint, ValueKind kind) {
  const StoredValues stored = stored_values(checkpoint.path, checkpoint.manifest, kind);
  StoredReader reader(stored);
  std::vector<WholeTensor> tensors;
  for (const auto& [name, tensor] : stored.tensors)
    tensors.push_back({name, tensor.shape, reader.whole(tensor)});
  return tensors;
}

TensorDigests digests_of(std::span<const WholeTensor> tensors) {
  TensorDigests digests;
  for (const WholeTensor& tensor : tensors)
    digests.emplace(tensor.name, digest_of({&tensor, 1}));
  return digests;
}

// Weights before averages: on a disk without room for both, find_start notices the missing
// averages.
void write_weights(const std::string& run, std::span<const WholeTensor> weights,
                   std::span<const WholeTensor> averages, std::int64_t step,
                   const std::optional<ReachedTarget>& reached) {
  const auto metadata = weights_metadata(step, reached);
  save_weights(RunDirectory::weights_in(run), weights, metadata);
  if (!averages.empty()) save_weights(RunDirectory::averages_in(run), averages, metadata);
}

}  // namespace

void write_results(Session& session, const TrainingState& trained, const TrainingEnd& ending,
                   Reporter* reporter) {
  const AverageWeights& average = trained.average;
  const auto weights = gather_weights(session);
  const auto averages =
      average.enabled() ? gather_average(session, average) : std::vector<WholeTensor>{};
  const bool layout = session.config.reproducibility == Reproducibility::layout;
  const std::string state = layout ? optimizer_digest(session, trained.engine.optimizer()) : "";
  if (reporter == nullptr) return;
  const std::int64_t step = ending.done;
  const std::string digest = digest_of(weights);
  reporter->certificate.weights(step, digest, digests_of(weights), digests_of(averages));
  write_weights(reporter->directory.path(), weights, averages, step, ending.reached);
  log::get("train").info("weights written to {}", reporter->directory.weights_path());
  log::get("train").info("final loss {:.4f} (of step {}; exact bits {:a}), weights xxh3 {}{}{}",
                         ending.final_loss, step, ending.final_loss, digest,
                         layout ? ", optimizer state xxh3 " : "", state);
}

void write_results(Session& session, const FoundCheckpoint& end) {
  if (session.world->rank() == 0) {
    const std::string& run = session.config.run.directory;
    const auto tensors = stored_tensors(end, ValueKind::model);
    const auto averages = end.manifest.has(ValueKind::average)
                              ? stored_tensors(end, ValueKind::average)
                              : std::vector<WholeTensor>{};
    const std::string path = run + "/" + std::string(certificate_name);
    if (std::filesystem::exists(path) && read_certificate(path).weights_step == 0)
      Certificate(path, end.step)
          .weights(end.step, digest_of(tensors), digests_of(tensors), digests_of(averages));
    write_weights(run, tensors, averages, end.step, reached_in(end));
    log::get("train").info(
        "weights of {} written to {}, because an earlier start ended before it wrote them",
        end.path, RunDirectory::weights_in(run));
  }
  session.world->barrier();
}

void write_memory(const BytesByRole& held, const Reporter& reporter) {
  nlohmann::ordered_json text = nlohmann::ordered_json::object();
  for (std::size_t role = 0; role < held.size(); ++role)
    text[std::string(name_of(static_cast<MemoryRole>(role)))] = held[role];
  try {
    write_file(RunDirectory::memory_in(reporter.directory.path()), text.dump(2) + "\n",
               ExitCode::internal);
  } catch (const Error& error) {
    log::get("train").warn("{}", error.what());
  }
}

void write_time_split(const StepReports& steps, const Reporter& reporter) {
  write_file(reporter.directory.path() + "/time_split.jsonl", steps.splits(), ExitCode::internal);
}

}  // namespace trireme
