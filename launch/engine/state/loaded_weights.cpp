// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/loaded_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "launch/engine/state/best_evaluation.h"
#include "launch/engine/state/data_record.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/config/param_rules.h"
#include "runtime/telemetry/environment.h"

namespace trireme {

namespace {

std::vector<std::string> lacking(const RunState& state) {
  std::vector<std::string> patterns;
  if (!state.path.ends_with(".safetensors")) return patterns;
  const SafetensorsFile file(state.path);
  const auto told = file.metadata().find(lacking_key);
  std::istringstream words(told == file.metadata().end() ? "" : told->second);
  for (std::string word; words >> word;)
    patterns.push_back(word);
  return patterns;
}

}  // namespace

LoadedWeights load_weights(Session& session, const std::string& run, const WeightsChoice& choice) {
  std::string path = choice.path.empty() ? run : choice.path;
  if (choice.best)
    path = gather_or_raise(*session.world, [&] {
             return session.world->rank() == 0 ? best_checkpoint(path) : std::string();
           }).front();
  LoadedWeights loaded{find_state(path, *session.world), choice.kind()};
  if (const auto patterns = lacking(loaded.state); !patterns.empty())
    fail(ExitCode::config,
         "{}: was imported without {}; train it first, with train.initial_weights: {}",
         loaded.state.path, fmt::join(patterns, ", "), loaded.state.path);
  restore_weights(loaded.state.values(loaded.kind), loaded.describe(), *session.device,
                  *session.streams.compute, session.placed_params(), session.model->params());
  return loaded;
}

WeightSelection selection_of(const Config& config, const RunState& state) {
  WeightSelection selection{.skip = config.train.initial_skip,
                            .reinitialise = config.train.initial_reinitialise};
  for (std::string& pattern : lacking(state)) {
    if (std::ranges::find(selection.reinitialise, pattern) != selection.reinitialise.end())
      continue;
    if (config.lora.rank > 0)
      fail(ExitCode::config,
           "{}: was imported without {}, which adapters freeze at its initial values; train it "
           "beside them by train.initial_reinitialise: [\"{}\"]",
           state.path, pattern, pattern);
    selection.reinitialise.push_back(std::move(pattern));
  }
  const std::string file = config_of_weights(config.train.initial_weights);
  if (file.empty()) return selection;
  selection.tokens_there = traits_of(load_config(file, {}).model).vocabulary;
  selection.tokens_here = traits_of(config.model).vocabulary;
  return selection;
}

namespace {

// Keys that may differ from those of the weights: more tokens, and heads that start anew.
bool may_differ(const FunctionDifference& found, const Config& config, const ModelConfig& theirs) {
  if (found.key == "model.vocabulary")
    return traits_of(config.model).vocabulary > traits_of(theirs).vocabulary;
  return is_head_key(found.key) && !config.train.initial_reinitialise.empty();
}

}  // namespace

void require_same_meaning(const Config& config, bool speaks, const Dataset& data) {
  const std::string file = config_of_weights(config.train.initial_weights);
  if (file.empty()) return;
  const ModelConfig theirs = load_config(file, {}).model;
  const std::int64_t added = traits_of(config.model).vocabulary - traits_of(theirs).vocabulary;
  if (speaks && added > 0 &&
      param_rules(config).freezes("embedding.token.weight", config.lora.rank > 0))
    log::get("train").warn(
        "model.vocabulary: the rows of {} added tokens keep the mean of the others, as they are "
        "frozen; train the table by {}",
        added,
        config.lora.rank > 0 ? "lora.modules_to_save: [embedding.token.weight]"
                             : "leaving it out of train.freeze");
  for (const FunctionDifference& found : function_differences(config.model, theirs)) {
    if (may_differ(found, config, theirs)) continue;
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
  const Precision precision = session.config.precision;
  fail(ExitCode::non_finite, "{}: the weights of {} are finite, but {}", result, weights.describe(),
       precision == Precision::fp32
           ? "not what they make of these inputs; trireme data inspect shows NaN and infinity"
           : fmt::format("their matmuls overflow in precision: {}; try --set precision=fp32",
                         name_of(precision)));
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
