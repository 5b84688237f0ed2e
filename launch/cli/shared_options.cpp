// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/shared_options.h"

#include <CLI/CLI.hpp>

namespace trireme {

void add_set_option(CLI::App& command, std::vector<std::string>& overrides,
                    const std::string& what) {
  command
      .add_option(
          "--set", overrides,
          "Override one key of the config, as in --set train.steps=50; may be repeated" + what)
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

CLI::Option* add_config_options(CLI::App& command, std::string& config,
                                std::vector<std::string>& overrides, const std::string& what) {
  CLI::Option* const option = command.add_option("config", config, what);
  add_set_option(command, overrides);
  return option;
}

void add_weights_options(CLI::App& command, WeightsChoice& choice) {
  command.add_option("--weights,--checkpoint", choice.path,
                     "Weights instead of RUN's newest state (the weights that it ended with or its "
                     "newest checkpoint that verifies, whichever has more steps): a checkpoint, a "
                     "safetensors file, an index of several, a directory of either, or a run");
  command.add_flag("--average", choice.average, "The averaged weights (train.ema_decay)");
}

}  // namespace trireme
