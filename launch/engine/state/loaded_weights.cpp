// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/loaded_weights.h"

#include <filesystem>

#include "launch/engine/state/data_record.h"
#include "models/config.h"
#include "models/function_differences.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/gather_texts.h"

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
        fmt::format("{}: {}, and {} says {}", found.key, found.ours, file, found.theirs);
    if (!found.key.starts_with("model.rope_") && found.key != "model.window")
      fail(ExitCode::config,
           "{}: with the same weights that is another model (train.initial_weights: {}); take {} "
           "out of the config, or train without these weights",
           both, config.train.initial_weights, found.key);
    if (speaks)
      log::get("train").warn("{}: the weights were trained with the latter, and go on as {}", both,
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
       "{}: the weights of {} are finite, but matmuls of them overflow in precision: {}; try "
       "--set precision=fp32",
       result, weights.describe(), name_of(session.config.precision));
}

}  // namespace trireme
