// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/shared_options.h"

#include <CLI/CLI.hpp>

namespace trireme {

void add_weights_options(CLI::App& command, WeightsChoice& choice) {
  command.add_option("--weights,--checkpoint", choice.path,
                     "Weights instead of RUN's newest state (the weights that it ended with or its "
                     "newest checkpoint that verifies, whichever has more steps): a checkpoint, a "
                     "safetensors file, an index of several, a directory of either, or a run");
  command.add_flag("--average", choice.average, "The averaged weights (train.ema_decay)");
}

}  // namespace trireme
