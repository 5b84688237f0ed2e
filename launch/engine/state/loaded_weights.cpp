// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/loaded_weights.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "launch/engine/state/data_record.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/environment.h"

namespace trireme {

LoadedWeights load_weights(Session& session, const std::string& run, const WeightsChoice& choice) {
  LoadedWeights loaded{find_state(choice.path.empty() ? run : choice.path, *session.world),
                       choice.kind()};
  restore_weights(loaded.state.values(loaded.kind), loaded.describe(), *session.device,
                  *session.streams.compute, session.placed_params(), session.model->params());
  return loaded;
}

void require_same_meaning(const Config& config, bool speaks, const Dataset& data) {
  const std::string file = config_of_weights(config.train.initial_weights);
  if (file.empty()) return;
  const ModelConfig theirs = load_config(file, {}).model;
  for (const FunctionDifference& found : function_differences(config.model, theirs)) {
    const std::string both =
        fmt::format("{}: {}, but {} has {}", found.key, found.ours, file, found.theirs);
    if (!found.key.starts_with("model.rope_") && found.key != "model.window")
      fail(ExitCode::config,
           "{}: the same weights would be another model (train.initial_weights: {}); remove {} "
           "from the config, or train without these weights",
           both, config.train.initial_weights, found.key);
    if (speaks)
      log::get("train").warn(
          "{}: the weights were trained with the latter; training continues with {}", both,
          found.ours);
  }
  auto trained = ids_of_run(std::filesystem::path(file).parent_path().string());
  const IdNames given = data.id_names();
  if (!trained || given.source.empty()) return;
  trained->classes.clear();  // a head may learn new classes
  require_same_ids(*trained, given);
}

void refuse_non_finite(Session& session, const LoadedWeights& weights, const std::string& result) {
  std::string found;
  if (session.world->rank() == 0) found = first_non_finite(weights.state.values(weights.kind));
  found = broadcast_text(*session.world, found, 0);
  if (!found.empty())
    fail(ExitCode::non_finite, "{}: {} holds NaN or infinity in {}", result, weights.describe(),
         found);
  fail(ExitCode::non_finite,
       "{}: the weights of {} are finite, but their matmuls overflow in precision: {}; try --set "
       "precision=fp32",
       result, weights.describe(), name_of(session.config.precision));
}

namespace {

// Gathers parameters, or values indexed like them, on rank 0. Collective.
std::vector<WholeTensor> gather(Session& session, const OwnedValues& owned, bool with_statistics) {
  return gather_whole(*session.device, session.mesh, *session.streams.comm, session.model->params(),
                      session.placed_params(), owned, with_statistics);
}

}  // namespace

std::vector<WholeTensor> gather_weights(Session& session) {
  const ParamStore& params = session.model->params();
  return gather(
      session, [&](const Bucket& bucket) { return params.masters().owned(bucket); }, true);
}

std::vector<WholeTensor> gather_average(Session& session, const AverageWeights& average) {
  return gather(
      session, [&](const Bucket& bucket) { return average.owned(bucket); }, true);
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
  if (const Tensor factored = optimizer.factored_moments(); !factored.empty()) {
    const Buffer host(*session.device, factored.bytes(), MemoryKind::host);
    session.device->copy(*session.streams.comm, host.data(), factored.data, factored.bytes());
    session.streams.comm->synchronize();
    const auto* const values = reinterpret_cast<const float*>(host.data());
    all.push_back({"factored_moments", factored.shape, {values, values + factored.count()}});
  }
  return digest_of(all);
}

std::map<std::string, std::string> weights_metadata(std::optional<std::int64_t> step,
                                                    const std::optional<ReachedTarget>& reached) {
  std::map<std::string, std::string> metadata{{"format", "trireme"}, {"version", version_text()}};
  if (step) metadata.emplace("step", fmt::format("{}", *step));
  if (reached) metadata.emplace("reached", stored_text(reached));
  return metadata;
}

}  // namespace trireme
