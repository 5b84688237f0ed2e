// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/state/best_evaluation.h"
#include "launch/exchange/peft.h"
#include "launch/exchange/weight_exchange.h"
#include "models/config.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The config of the run that contains a checkpoint or a weights file.
Config config_for(const std::string& path, const std::string& given) {
  if (!given.empty()) return load_config(given, {});
  fs::path directory = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 4; ++level, directory = directory.parent_path()) {
    if (fs::exists(directory / "config.yaml"))
      return load_config((directory / "config.yaml").string(), {});
  }
  fail(ExitCode::config, "{}: no config.yaml in the directories above it; give --config", path);
}

struct ExchangeArguments {
  std::string from, config, out;
  std::string base;
  bool adapter = false, average = false, best = false, force = false, expectations = false,
       unchecked = false;
  std::uint64_t shard_mb = 5000;
  std::string dtype = "fp32";
  std::vector<std::string> reinitialise, overrides;
};

void run_export(const ExchangeArguments& arguments) {
  const auto alone = make_single_communicator();
  const RunState state =
      find_state(arguments.best ? best_checkpoint(arguments.from) : arguments.from, *alone);
  if (!arguments.base.empty() && !arguments.adapter)
    fail(ExitCode::config, "--base is for --adapter, which names the model that it changes");
  if (arguments.adapter)
    return export_adapter(state, config_for(state.path, arguments.config),
                          {.to = arguments.out, .force = arguments.force}, arguments.base);
  export_weights(state, config_for(state.path, arguments.config),
                 {.to = arguments.out, .force = arguments.force},
                 {.average = arguments.average,
                  .shard_bytes = arguments.shard_mb * 1'000'000,
                  .expectations = arguments.expectations,
                  .dtype = arguments.dtype == "bf16"   ? DType::bf16
                           : arguments.dtype == "fp16" ? DType::f16
                                                       : DType::f32});
}

void run_import(const ExchangeArguments& arguments) {
  const bool adapter = fs::exists(fs::path(arguments.from) / peft_config);
  if (adapter && arguments.base.empty())
    fail(ExitCode::config,
         "{}: is an adapter of peft; give --base, the run of the model that it changes",
         arguments.from);
  if (!adapter && !arguments.base.empty())
    fail(ExitCode::config, "--base is for adapters, and {} has no {}", arguments.from, peft_config);
  if (adapter) {
    const auto alone = make_single_communicator();
    const RunState base = find_state(arguments.base, *alone);
    return import_adapter(arguments.from, base, config_for(base.path, arguments.config),
                          {.to = arguments.out, .force = arguments.force});
  }
  const auto& overrides = arguments.overrides;
  const ModelConfig model = arguments.config.empty()
                                ? parse_config(model_section(model_of_hugging_face(arguments.from)),
                                               "config.json", overrides)
                                      .model
                                : load_config(arguments.config, overrides).model;
  import_weights(arguments.from, model, {.to = arguments.out, .force = arguments.force},
                 !arguments.unchecked, arguments.reinitialise);
  if (arguments.config.empty()) fmt::print("for a config of it: {}", model_section(model));
}

void add_export(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "export", "Make a directory for Hugging Face's libraries: weights, config.json, tokenizer");
  const auto arguments = std::make_shared<ExchangeArguments>();
  command
      ->add_option("from", arguments->from,
                   "A run (its newest weights or checkpoint), a checkpoint, or a weights file")
      ->required();
  command->add_option("--out", arguments->out, "Directory to make")->required();
  command->add_option("--config", arguments->config,
                      "Config of the model (default: config.yaml of the run)");
  command->add_flag("--adapter", arguments->adapter,
                    "Only the adapters (lora.rank), as a directory for peft, instead of the model "
                    "merged with them");
  command->add_option("--base", arguments->base,
                      "With --adapter: the name or directory of the base model for peft");
  command->add_flag("--average", arguments->average, "The averaged weights (train.ema_decay)");
  command->add_flag("--best", arguments->best,
                    "The weights of the run's best evaluation (checkpoint.keep_best)");
  add_value(*command, "--shard-mb", arguments->shard_mb,
            "Megabytes (10^6 bytes) that a file of weights has at most",
            integer_between(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  add_value(*command, "--dtype", arguments->dtype, "How weights are stored: fp32, bf16 or fp16",
            CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_flag("--expectations", arguments->expectations,
                    "With the logits of fixed inputs, by which an import checks itself; holds the "
                    "whole model in memory");
  command->add_flag("--force", arguments->force, "Replace an earlier export");
  command->footer("Example: trireme checkpoint export runs/gpt_tiny --out exported");
  on_one_process(*command, [arguments] { run_export(*arguments); });
}

void add_import(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "import", "Make a run of Hugging Face's directory, or a weights file of its safetensors");
  const auto arguments = std::make_shared<ExchangeArguments>();
  command
      ->add_option("from", arguments->from,
                   "A .safetensors file, a .safetensors.index.json, or a directory of either")
      ->required();
  command->add_option("--config", arguments->config,
                      "Config of the model (default: from the config.json beside the weights; its "
                      "model section is printed)");
  command
      ->add_option("--out", arguments->out,
                   "NAME.safetensors to write, or a run's directory to make for generate and eval, "
                   "with config.yaml and the tokenizer")
      ->required();
  command->add_option("--base", arguments->base,
                      "For a directory of peft with adapter_config.json: the run, or weights, of "
                      "the model that it changes");
  add_set_option(*command, arguments->overrides, ": model.head and the like of another task");
  command->add_option(
      "--reinitialise", arguments->reinitialise,
      "Patterns over our names of tensors that are left out, such as 'classifier.*' of a "
      "model saved without its head or for another task; a run that trains from the weights "
      "makes them anew");
  command->add_flag("--no-check", arguments->unchecked,
                    "Skip the comparison of a forward pass with trireme_expectations.safetensors "
                    "beside the weights (it needs memory for the whole model)");
  command->add_flag("--force", arguments->force, "Replace what is there");
  command->footer(
      "Example: trireme checkpoint import Qwen3-0.6B --out runs/qwen3, then trireme generate "
      "runs/qwen3 --prompt \"Hello\"");
  on_one_process(*command, [arguments] { run_import(*arguments); });
}

}  // namespace

void add_exchange_commands(CLI::App& checkpoint) {
  add_export(checkpoint);
  add_import(checkpoint);
}

}  // namespace trireme
