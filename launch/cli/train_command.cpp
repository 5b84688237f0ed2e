// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include <chrono>
#include <memory>
#include <utility>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/state/starting_point.h"
#include "launch/job/requested_config.h"
#include "launch/job/train_reports.h"
#include "launch/plan/choose_layout.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/config/key_table.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/train/signal_requests.h"

namespace trireme {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool print_config = false;
  bool list_keys = false;
  std::string family;
  StartRequest start;
  bool split_times = false;
  bool verbose = false;
  std::int64_t until = 0;
};

// Of one family, or all.
void list_keys(const std::string& family) {
  const config::KeyTable& keys = key_table();
  const auto& families = std::get<config::Choices>(keys.find("model.family")->limits).words;
  if (!family.empty() && std::ranges::find(families, family) == families.end())
    fail(ExitCode::config, "--family: {} is not a model family; use {}", family,
         fmt::join(families, ", "));
  for (const FieldDoc& field : field_docs()) {
    const config::Condition& only = keys.find(field.key)->only_with;
    if (!family.empty() && only.key == "model.family" && !only.allows(family)) continue;
    fmt::print("{:<30} {:<16} default {:<14} {}{}{}\n", field.key, field.type, field.default_value,
               field.description, field.allowed.empty() ? "" : "  allowed: ", field.allowed);
  }
}

// Destroys the engine before the exit code is thrown: it takes an exception for a failed run.
StopReason run_and_report(const RankProcess& process, const Config& config,
                          const RunRequest& request, ReportRequest reported) {
  // First, so that a broken hardware file ends the run early.
  const PlannedStep planned = process.mpi.rank() == 0 ? planned_step(config) : PlannedStep{};
  Engine engine(process, config);
  TrainReports reports(engine, planned, std::move(reported));
  const StopReason stopped = engine.run(reports, request);
  if (stopped != StopReason::none) reports.stopped();
  return stopped;
}

void train(const TrainArguments& arguments, const std::vector<std::string>& command_line) {
  if (arguments.list_keys) return list_keys(arguments.family);
  if (arguments.config.empty())
    fail(ExitCode::config, "trireme train: no config file given; see trireme train --help");
  if (arguments.verbose) log::show_details();
  const SignalRequests signals;  // before anything slow
  const auto began = std::chrono::system_clock::now();
  const RankProcess process;
  auto [given, where, requested] =
      load_requested(arguments.config, arguments.overrides, process.mpi.size());
  // A pipeline's receives come before the forward passes that they wait behind, and ranks that take
  // turns on a GPU wait for each other in other ways too.
  if (given.parallel.pipeline == 1 && !given.parallel.search && !given.device.share)
    load_kernels_when_used();
  settle_epochs(given, where, process);
  if (given.parallel.search) given = choose_layout(process, given, where);
  Environment place = process.environment();
  const auto found = list_checkpoints(RunDirectory::checkpoints_in(given.run.directory));
  if (!found.empty() && !arguments.start.overwrite) place.steps_done = found.back().step;
  Config config = resolve_config(given, place, &where);
  if (arguments.print_config) {
    if (process.mpi.rank() == 0) fmt::print("{}", to_yaml(config, &where));
    return;
  }
  if (arguments.until > config.train.steps)
    fail(ExitCode::config, "--until: {} is beyond train.steps = {}; give a step of the run",
         arguments.until, config.train.steps);
  config = with_drawn_seed(process, std::move(config), arguments.start);
  try {
    const StopReason stopped =
        run_and_report(process, config, {.start = arguments.start, .until = arguments.until},
                       {command_line, requested, arguments.split_times, began});
    if (stopped != StopReason::none && stopped != StopReason::reached)
      throw CLI::RuntimeError(static_cast<int>(ExitCode::requeue));
  } catch (const OutOfMemory& lack) {
    throw Error(lack.code(), lack.what() + memory_advice(config, lack));
  }
}

}  // namespace

void add_train_command(CLI::App& app, std::vector<std::string> command_line) {
  auto* const command = app.add_subcommand("train", "Train the model of a config file");
  const auto arguments = std::make_shared<TrainArguments>();
  add_config_options(*command, arguments->config, arguments->overrides,
                     "YAML file, see configs/, or a run directory, of which the config is used");
  command->add_flag("--print-config", arguments->print_config,
                    "Print the resolved config, with where each value is from, and stop");
  auto* const fresh = command->add_flag("--fresh", arguments->start.fresh,
                                        "Refuse to resume a run that run.directory already holds");
  command
      ->add_flag("--overwrite", arguments->start.overwrite,
                 "Remove the run in run.directory, with its checkpoints and weights, and start "
                 "from scratch (a restart of the same job resumes)")
      ->excludes(fresh);
  command->add_flag("--verbose", arguments->verbose,
                    "Show details that otherwise only console.log in run.directory has");
  command->add_flag("--split-times", arguments->split_times,
                    "Write where each step's time went over all ranks to time_split.jsonl");
  command
      ->add_option("--until", arguments->until,
                   "Stop after this step with a checkpoint, before train.steps; the learning rate "
                   "schedule still follows train.steps, and the run can resume")
      ->check(integer_from(std::int64_t{1}));
  auto* const listed = command->add_flag("--list-keys", arguments->list_keys,
                                         "Print every config key with its default and stop");
  command->add_option("--family", arguments->family, "With --list-keys: only keys of this model")
      ->needs(listed);
  command->footer(
      "Example: launch/mpi_run.sh -np 2 trireme train configs/gpt_tiny.yaml --set "
      "run.directory=runs/a");
  command->callback([arguments, command_line] { train(*arguments, command_line); });
}

}  // namespace trireme
