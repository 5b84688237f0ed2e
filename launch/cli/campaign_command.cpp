// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "launch/campaign/campaign.h"
#include "launch/cli/shared_options.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

struct CampaignArguments {
  std::string file, place;
  bool list_keys = false;
};

// `place`: a campaign's file or directory.
std::string directory_of(const std::string& place) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return campaign::load_campaign(place).directory;
  return std::filesystem::absolute(place).lexically_normal().string();
}

campaign::CampaignState state_of(const std::string& directory) {
  auto state = campaign::load_state(directory);
  if (!state) {
    fail(ExitCode::config,
         "{}: does not exist; give a campaign's file, or its directory after the campaign began",
         campaign::state_file_in(directory));
  }
  return std::move(*state);
}

void run(const std::string& file, bool stop) {
  hold_signals(stop_signals);
  campaign::Campaign campaign(campaign::load_campaign(file));
  const int code = campaign.run(stop);
  if (code != 0) throw CLI::RuntimeError(code);
}

void show_status(const std::string& place) {
  const std::string directory = directory_of(place);
  const campaign::CampaignState state = state_of(directory);
  fmt::print("{}", campaign::status_text(state, directory, campaign::wall_clock()));
  if (state.outcome == campaign::CampaignState::Outcome::going &&
      !RunOwner::is_held(directory).value_or(false))
    fmt::print("no process follows this campaign; start it again with its file\n");
}

void stop(const std::string& place) {
  const std::string directory = directory_of(place);
  const campaign::CampaignState state = state_of(directory);
  if (state.outcome != campaign::CampaignState::Outcome::going) {
    fmt::print("the campaign has ended: {}\n", campaign::name_of(state.outcome));
    return;
  }
  write_file(campaign::stop_file_in(directory), "", ExitCode::config);
  if (RunOwner::is_held(directory).value_or(false)) {
    fmt::print("asked the campaign to stop its job with a checkpoint, and itself\n");
    return;
  }
  std::error_code error;
  if (std::filesystem::is_directory(place, error)) {
    fail(ExitCode::config,
         "{}: no process follows this campaign; give its file, so that this one can stop the job",
         place);
  }
  run(place, /*stop=*/true);
}

}  // namespace

void add_campaign_command(CLI::App& app) {
  auto* const command = app.add_subcommand(
      "campaign", "A training over as many jobs as it takes, on whatever nodes are free");
  const auto arguments = std::make_shared<CampaignArguments>();
  command->add_option("file", arguments->file,
                      "YAML file of the campaign; --list-keys, launch/campaign/README.md");
  command->add_flag("--list-keys", arguments->list_keys,
                    "Print every key of a campaign file with its default and stop");
  auto* const status = command->add_subcommand("status", "Jobs, progress, node-hours, goodput");
  status->add_option("campaign", arguments->place, "The campaign's file or directory")->required();
  status->callback([arguments] { show_status(arguments->place); });
  auto* const end =
      command->add_subcommand("stop", "Stop the job with a checkpoint, and the campaign");
  end->add_option("campaign", arguments->place, "The campaign's file or directory")->required();
  end->callback([arguments] { stop(arguments->place); });
  command->require_subcommand(0, 1);
  command->footer(
      "May be killed and restarted at any time: it finds its job and submits none twice. "
      "Ctrl-C leaves the job running.\n"
      "Exit code: 0 done; 2, 3, 4, 6 of a run that cannot succeed; 75 if it can go on "
      "(interrupted, stopped, budget); 93 gave up.\n"
      "Example: trireme campaign launch/examples/campaign.yaml\n"
      "Example: trireme campaign status launch/examples/campaign.yaml");
  command->callback([arguments, command] {
    require_no_ranks(*command);
    if (!command->get_subcommands().empty()) return;
    if (arguments->list_keys) {
      fmt::print("{}", campaign::campaign_keys_text());
      return;
    }
    if (arguments->file.empty())
      fail(ExitCode::config, "trireme campaign: no file given; see trireme campaign --help");
    run(arguments->file, /*stop=*/false);
  });
}

}  // namespace trireme
