// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/state/loaded_weights.h"

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
