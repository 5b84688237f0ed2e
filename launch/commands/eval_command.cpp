// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/eval_command.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>

#include "launch/commands/number_check.h"
#include "launch/commands/shared_options.h"
#include "launch/job/requested_config.h"
#include "models/config.h"
#include "runtime/engine/data_sets.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/state/data_record.h"

namespace trireme {
namespace {

struct EvalArguments {
  std::string run;
  std::string data;
  std::string split = "validation";
  WeightsChoice weights;
  std::int64_t batches = 0;  // 0: all of the data
  std::vector<std::string> overrides;
};

void evaluate_on(const std::string& path, DataConfig& data) {
  if (std::ranges::any_of(data.sources, [](const NamedSource& source) {
        return source.in_place() || source.has_images();
      })) {
    fail(ExitCode::config,
         "--data: the run's data.sources are read in place, each in its own way; name what to "
         "evaluate on by --set data.sources=...");
  }
  for (NamedSource& source : data.sources)
    source.validation_path.clear();
  if (data.in_place()) {
    data.validation_files = {path};
    data.validation_fraction = 0;
    data.validation_values.clear();
    if (data.test_values.empty()) data.split_key.clear();
  } else if (data.has_images()) {
    data.validation_images = {path};
  } else {
    data.validation_path = path;
  }
}

// What is there to test on instead of what was evaluated on.
void test_instead(DataSource& data) {
  std::error_code ignored;
  const std::string below = data.test_path + "/test";
  data.validation_path = std::filesystem::is_directory(below, ignored) ? below : data.test_path;
  data.validation_files = data.test_files;
  data.validation_images.clear();
  data.validation_values = data.test_values;
  data.test_values.clear();
  if (data.validation_values.empty()) data.split_key.clear();
  data.validation_fraction = 0;
}

void evaluate_on_test(DataConfig& data) {
  test_instead(data);
  for (NamedSource& source : data.sources)
    test_instead(source);
  if (data.has_validation()) return;
  fail(ExitCode::config,
       "--split test: the run's config names no test set; set data.test_path, data.test_files or "
       "data.test_values, or name one by --data");
}

// Labels that are text get the numbers that they were trained with.
void take_classes(const std::string& run, DataConfig& data) {
  const auto trained = ids_of_run(run);
  if (!trained) return;
  const auto take = [&](DataSource& source) {
    if (source.in_place() && source.class_names.empty()) source.class_names = trained->classes;
  };
  take(data);
  for (NamedSource& source : data.sources)
    take(source);
}

// The run's config for this evaluation. What an evaluation during training was limited to is no
// limit here.
Config config_of(const EvalArguments& arguments, const RankProcess& process) {
  // The run may have trained on another number of ranks: all ranks that are here share the
  // evaluation.
  std::vector<std::string> overrides{"parallel.data=auto"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  Provenance where;
  Config config = load_config(config_file_of_run(arguments.run), overrides, &where);
  if (arguments.split == "test") evaluate_on_test(config.data);
  if (!arguments.data.empty()) evaluate_on(arguments.data, config.data);
  take_classes(arguments.run, config.data);
  if (arguments.batches > 0 || !where.overridden.contains("train.eval_batches"))
    config.train.eval_batches = arguments.batches;
  return resolve_config(std::move(config), process.environment(), &where, Purpose::evaluate);
}

void evaluate_run(const EvalArguments& arguments) {
  const RankProcess process;
  const Config config = config_of(arguments, process);
  Engine engine(process, config, Purpose::evaluate);
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  ValidationPass& pass = engine.validation();
  require_ids_of_run(arguments.run, pass.dataset());
  const EvaluationResult result = engine.evaluate();
  engine.verify_data();
  if (!std::isfinite(result.loss))
    refuse_non_finite(engine.session(), weights, fmt::format("the loss is {}", result.loss));
  if (process.mpi.rank() != 0) return;
  fmt::print("weights   {}\ndata      {}\nsamples   {} of {}\nloss      {:.6f} nats\n",
             weights.describe(), data_text(config.data, DataPart::validation), pass.samples(),
             pass.dataset().size(), result.loss);
  if (engine.session().traits().input == InputKind::tokens) {
    fmt::print("perplexity {:.4f}\nbits per token {:.6f}\n", std::exp(result.loss),
               result.loss / std::numbers::ln2);
  }
  fmt::print("accuracy  {:.4f} %\n", 100 * result.accuracy);
  for (const EvaluationResult::Part& part : result.parts) {
    if (!part.source.empty())
      fmt::print("{}: loss {:.6f} nats, accuracy {:.4f} %\n", part.source, part.loss,
                 100 * part.accuracy);
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("eval", "Loss and accuracy of a run's weights on a data set");
  const auto arguments = std::make_shared<EvalArguments>();
  command->add_option("run", arguments->run, "Run directory")->required();
  command->add_option("--data", arguments->data, "Data set (default: the run's validation set)");
  auto* const split = command->add_option("--split", arguments->split,
                                          "validation, or test: data.test_path and its like");
  split->check(CLI::IsMember({"validation", "test"}))->capture_default_str();
  split->excludes("--data");
  add_weights_options(*command, arguments->weights);
  command
      ->add_option("--batches", arguments->batches,
                   "Evaluate the first N x train.global_batch samples (default: all of the data)")
      ->check(integer_from<std::int64_t>(1));
  add_set_option(*command, arguments->overrides);
  command->footer(
      "Example: mpirun -np 2 trireme eval runs/gpt_tiny --data data/packed/kjv/validation");
  command->callback([arguments] { evaluate_run(*arguments); });
}

}  // namespace trireme
