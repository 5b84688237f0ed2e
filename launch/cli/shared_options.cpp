// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/shared_options.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "launch/guard.h"

namespace trireme {
namespace {

// The words after the old ones are kept.
struct OldCommand {
  std::vector<std::string> old, now;
};

const std::vector<OldCommand>& old_commands() {
  static const std::vector<OldCommand> commands{
      {{"verify-run"}, {"replay"}},
      {{"checkpoint", "verify"}, {"checkpoint", "inspect", "--verify"}},
      {{"checkpoint", "diff"}, {"checkpoint", "inspect"}},
      {{"bench", "comm"}, {"bench", "machine", "--links"}},
      {{"bench", "model"}, {"bench", "machine"}},
      {{"data", "describe"}, {"data", "inspect", "--config"}},
      {{"data", "statistics"}, {"data", "inspect", "--statistics"}},
      {{"data", "verify"}, {"data", "inspect", "--verify"}},
  };
  return commands;
}

}  // namespace

std::vector<std::string> with_current_commands(std::vector<std::string> words) {
  for (const auto& [old, now] : old_commands()) {
    if (words.size() < old.size() || !std::ranges::equal(old, std::span(words).first(old.size())))
      continue;
    if (launcher_rank() == 0)
      fmt::print(stderr, "trireme {} is trireme {} now\n", fmt::join(old, " "),
                 fmt::join(now, " "));
    words.erase(words.begin(), words.begin() + std::ssize(old));
    words.insert(words.begin(), now.begin(), now.end());
    break;
  }
  return words;
}

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
