// SPDX-License-Identifier: Apache-2.0

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "launch/cli/commands.h"
#include "launch/cli/help_formatter.h"
#include "launch/guard.h"
#include "runtime/config/suggest.h"
#include "runtime/telemetry/environment.h"

namespace trireme {

int run_program(int argc, char** argv) {
  return guarded_main([&] {
    CLI::App app{
        "Trireme: distributed training of transformers and CNNs from one config file.\n"
        "Example: launch/mpi_run.sh -np 4 trireme train configs/gpt_tiny.yaml --set "
        "train.steps=50"};
    app.name("trireme");
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_version_flag("--version", version_text());
    app.require_subcommand(1);
    add_train_command(app, {argv, argv + argc});
    add_plan_command(app);
    add_scale_command(app);
    add_campaign_command(app);
    add_ablate_command(app);
    add_supervise_command(app, {argv, argv + argc});
    add_report_command(app);
    add_replay_command(app);
    add_top_command(app);
    add_trace_command(app);
    add_doctor_command(app);
    add_eval_command(app);
    add_generate_command(app);
    add_data_commands(app);
    add_checkpoint_commands(app);
    add_bench_command(app);
    return parse_and_run(app, argc, argv);
  });
}

namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      names.push_back("--" + name);
  }
  return names;
}

// "; did you mean train?" or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> words(known.begin(), known.end());
  const auto near = config::closest(word, words);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::string about_option(const std::string& word, const CLI::App& app, const std::string& path) {
  const std::string name = word.substr(0, word.find('='));
  return fmt::format("{}: {}: no such option{}", path, name, did_you_mean(name, options_of(app)));
}

std::string about_command(const std::string& word, const CLI::App& app, const std::string& path) {
  const auto names = commands_of(app);
  std::string text =
      fmt::format("{}: {}: no such command{}", path, word, did_you_mean(word, names));
  if (word.ends_with(".yaml") || word.ends_with(".yml"))
    text += fmt::format("; to train with this config: {} train {}", path, word);
  return text + fmt::format("\nCommands: {}", fmt::join(names, ", "));
}

// The second setting of "--set a=1 b=2"; "" if every setting has its own --set.
std::string setting_without_set(const std::vector<std::string>& words) {
  int behind = -1;  // words since the last --set; -1 after another option
  for (const std::string& word : words) {
    if (word.starts_with('-')) {
      behind = word == "--set" ? 0 : -1;
    } else if (behind >= 0 && ++behind > 1 && word.find('=') != std::string::npos) {
      return word;
    }
  }
  return "";
}

}  // namespace

std::string usage_advice(const CLI::App& app, const std::vector<std::string>& words,
                         const CLI::ParseError& error) {
  const CLI::App* reached = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    if (reached->get_require_subcommand_min() == 0) break;
    const auto names = commands_of(*reached);
    if (std::ranges::find(names, word) == names.end()) {
      return word.starts_with('-') ? about_option(word, *reached, path)
                                   : about_command(word, *reached, path);
    }
    reached = reached->get_subcommand(word);
    path += " " + word;
  }
  if (reached->get_require_subcommand_min() > 0)
    return fmt::format("{}: give a command: {}", path, fmt::join(commands_of(*reached), ", "));
  for (const std::string& word : reached->remaining()) {
    if (word.starts_with('-')) return about_option(word, *reached, path);
  }
  if (const std::string word = setting_without_set(words); !word.empty())
    return fmt::format("{0}: {1}: --set takes one KEY=VALUE; write --set {1}", path, word);
  return fmt::format("{}: {}", path, error.what());
}

}  // namespace trireme
