// SPDX-License-Identifier: Apache-2.0
#include "launch/job/weights_choice.h"

#include "runtime/checkpoint/restore.h"
#include "runtime/comm/gather_texts.h"

namespace trireme {

void WeightsChoice::add_to(CLI::App& command) {
  command.add_option("--weights,--checkpoint", path,
                     "Weights instead of RUN's newest state (the weights that it ended with or its "
                     "newest checkpoint that verifies, whichever has more steps): a checkpoint, a "
                     "safetensors file, an index of several, a directory of either, or a run");
  command.add_flag("--average", average, "The averaged weights (train.ema_decay)");
}

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
       "{}: the weights of {} are finite, but products of them overflow in precision: {}; try "
       "--set precision=fp32",
       result, weights.describe(), session.config.precision);
}

}  // namespace trireme
