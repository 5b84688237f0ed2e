// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/shared_options.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "launch/guard.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/mpi.h"

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
  command.add_flag("--best", choice.best,
                   "The weights of RUN's best evaluation (checkpoint.keep_best)");
}

namespace {

std::int64_t ranks_of_mpirun() {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return environment_number("OMPI_COMM_WORLD_SIZE", 1, most).value_or(1);
}

}  // namespace

void run_on_one_process(const std::function<void()>& work) {
  // mpirun reports a failure if ranks leave before the one that ends the job with its error, and
  // may hang if they are then in MPI_Finalize, so they wait first.
  std::optional<MpiEnvironment> job;
  if (ranks_of_mpirun() > 1) {
    job.emplace(nullptr, nullptr);
    set_process_label(job->rank(), job->size());
  }
  if (launcher_rank() == 0) work();
  if (job) job->world()->barrier();
}

void on_one_process(CLI::App& command, std::function<void()> work) {
  command.callback([work = std::move(work)] { run_on_one_process(work); });
}

void require_no_ranks(const CLI::App& command) {
  if (const auto ranks = ranks_of_mpirun(); ranks > 1)
    fail(ExitCode::config,
         "trireme {0}: starts jobs itself and was started {1} times by mpirun; call it without "
         "mpirun",
         command.get_name(), ranks);
}

}  // namespace trireme
