// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/images/image_sources.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/engine.h"
#include "launch/engine/state/data_record.h"
#include "launch/job/evaluation_report.h"
#include "launch/job/requested_config.h"
#include "launch/text/continuation.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"

namespace trireme {
namespace {

struct EvalArguments {
  std::string run;
  std::vector<std::string> data;  // none: the run's data
  std::vector<std::string> continuations;
  std::string tokenizer, out, json;
  std::int64_t batch = 8;
  std::string split = "validation";
  WeightsChoice weights;
  std::int64_t batches = 0;  // 0: all of the data
  std::vector<std::string> overrides;
};

// Images and packed images have the same pixels, so a run on one can be evaluated on the other.
void evaluate_on_pixels(const std::string& path, DataConfig& data) {
  data.path.clear();
  data.validation_path.clear();
  if (names_images(path)) {
    data.images.clear();
    data.validation_images = {path};
    data.crop_scale.clear();  // nothing is cropped at random
  } else {
    data.validation_path = path;
    static_cast<ImageFilesSource&>(data) = {};
    data.damaged = {};
  }
}

void evaluate_on(const std::string& path, DataConfig& data) {
  if (std::ranges::any_of(data.sources, [](const NamedSource& source) {
        return source.kind() != SourceKind::packed;
      })) {
    fail(ExitCode::config,
         "--data: the run's data.sources are read in place, each with its own keys; name the data "
         "to evaluate on by --set data.sources=...");
  }
  for (NamedSource& source : data.sources)
    source.validation_path.clear();
  if (data.kind() == SourceKind::files) {
    data.validation_files = {path};
    data.validation_fraction = 0;
    data.validation_values.clear();
    data.leave_inside();
    if (data.test_values.empty()) data.split_key.clear();
  } else if (data.kind() == SourceKind::images || names_images(path)) {
    evaluate_on_pixels(path, data);
  } else {
    data.validation_path = path;
  }
}

// The data kinds to test on instead.
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
  data.leave_inside();
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

// Text labels get their numbers from training.
void take_classes(const std::string& run, DataConfig& data) {
  const auto trained = ids_of_run(run);
  if (!trained) return;
  const auto take = [&](DataSource& source) {
    if (source.kind() == SourceKind::files && source.class_names.empty())
      source.class_names = trained->classes;
  };
  take(data);
  for (NamedSource& source : data.sources)
    take(source);
}

// The run's config for this evaluation, without the limits of evaluations during training.
Config config_of(const EvalArguments& arguments, const RankProcess& process,
                 const std::string& data) {
  // The run may have trained on another number of ranks; all ranks here share the evaluation.
  std::vector<std::string> overrides{"parallel.data=auto"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  Provenance where;
  Config config = load_config(config_file_of_run(arguments.run), overrides, &where);
  if (!arguments.continuations.empty()) {
    config.train.micro_batch = arguments.batch;
    return resolve_config(std::move(config), process.environment(), &where, Purpose::generate);
  }
  if (arguments.split == "test") evaluate_on_test(config.data);
  if (!data.empty()) evaluate_on(data, config.data);
  take_classes(arguments.run, config.data);
  if (arguments.batches > 0 || !where.overridden.contains("train.eval_batches"))
    config.train.eval_batches = arguments.batches;
  return resolve_config(std::move(config), process.environment(), &where, Purpose::evaluate);
}

// Bytes of text of a data set's targets; 0: unknown, or not all are evaluated.
double bytes_of_targets(const ValidationPass& pass, const Words& words) {
  const Dataset& data = pass.dataset();
  if (!words.known() || pass.samples() != data.size()) return 0;
  std::vector<std::byte> inputs(data.layout().input_bytes());
  std::vector<std::int32_t> targets(static_cast<std::size_t>(data.layout().targets.count()));
  double bytes = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read(i, inputs, targets);
    for (const std::int32_t token : targets)
      bytes += token < 0 ? 0 : static_cast<double>(words.text_of(token).size());
  }
  return bytes;
}

void evaluate_run(const EvalArguments& arguments, const RankProcess& process) {
  std::vector<std::string> paths = arguments.data;
  if (paths.empty()) paths.emplace_back();
  std::vector<Config> configs;
  for (const std::string& path : paths)
    configs.push_back(config_of(arguments, process, path));
  Engine engine(process, configs.front(), Purpose::evaluate);
  Session& session = engine.session();
  std::vector<std::unique_ptr<Dataset>> sets;  // all opened before the first evaluation
  for (const Config& config : configs) {
    sets.push_back(open_dataset(*session.world, config, DataPart::validation));
    require_ids_of_run(arguments.run, *sets.back());
  }
  std::optional<Words> words;
  if (session.traits().generates)
    words.emplace(arguments.run, arguments.tokenizer, session.traits().vocabulary);
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  if (process.mpi.rank() == 0) fmt::print("weights   {}\n", weights.describe());
  PipelineRunner runner(*session.device, *session.model, session.mesh.pipeline(),
                        *session.streams.compute, session.pipeline);
  std::vector<EvaluatedData> results;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const Config& config = configs[i];
    ValidationPass pass(session, runner, std::move(sets[i]));
    const EvaluationResult result = pass.run();
    static_cast<void>(pass.watch().finish());
    if (!std::isfinite(result.loss))
      refuse_non_finite(session, weights, fmt::format("the loss is {}", result.loss));
    if (result.targets == 0)
      fail(ExitCode::data,
           "{}: loss masks leave no target in its first {} samples, so there is no loss; give "
           "other data, or more --batches",
           data_text(config.data, DataPart::validation), pass.samples());
    if (process.mpi.rank() != 0) continue;
    results.push_back({.data = data_text(config.data, DataPart::validation),
                       .samples = pass.samples(),
                       .of = pass.dataset().size(),
                       .result = result,
                       .targets = session.traits().targets,
                       .bytes = words ? bytes_of_targets(pass, *words) : 0});
    fmt::print("{}", evaluation_text(results.back()));
  }
  if (process.mpi.rank() == 0 && !arguments.json.empty())
    write_file(arguments.json, evaluation_json(arguments.run, weights.describe(), results),
               ExitCode::internal);
}

void score_continuations(const EvalArguments& arguments, const RankProcess& process) {
  const Config config = config_of(arguments, process, "");
  const ModelTraits traits = traits_of(config.model);
  if (!traits.generates)
    fail(ExitCode::config, "--continuations: model.family: {} does not continue texts",
         config.model.family);
  const Words words(arguments.run, arguments.tokenizer, traits.vocabulary);
  std::vector<ScoredFile> files;
  for (const std::string& path : arguments.continuations)
    files.push_back(read_continuations(path, words));
  Engine engine(process, config, Purpose::evaluate);
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  std::string lines;
  for (const ScoredFile& file : files) {
    const auto scores = score_texts(engine.session(), file.texts);
    if (!std::ranges::all_of(
            scores, [](const TextScore& score) { return std::isfinite(score.log_likelihood); }))
      refuse_non_finite(engine.session(), weights, file.path + ": a log-likelihood is not finite");
    lines += score_lines(file, scores);
    // Standard output has only the lines that programs read.
    if (process.mpi.rank() == 0)
      fmt::print(arguments.out.empty() ? stderr : stdout, "{}", score_summary(file, scores));
  }
  if (process.mpi.rank() != 0) return;
  if (arguments.out.empty()) {
    fmt::print("{}", lines);
  } else {
    write_file(arguments.out, lines, ExitCode::internal);
  }
}

void evaluate(const EvalArguments& arguments) {
  const RankProcess process;
  for (const std::string& file : {arguments.json, arguments.out}) {
    if (process.mpi.rank() == 0 && !file.empty()) require_writable(file, ExitCode::config);
  }
  arguments.continuations.empty() ? evaluate_run(arguments, process)
                                  : score_continuations(arguments, process);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("eval", "Loss, top-1 and top-5 accuracy of a run's weights on data sets");
  const auto arguments = std::make_shared<EvalArguments>();
  command->add_option("run", arguments->run, "Run directory")->required();
  auto* const data =
      command
          ->add_option(
              "--data", arguments->data,
              "Data set (default: the run's validation set), of a run on images packed ones, "
              "archives or class folders; several are evaluated in turn")
          ->allow_extra_args(false);
  auto* const json =
      command->add_option("--json", arguments->json, "Write the results to this file as well");
  auto* const continuations =
      command
          ->add_option(
              "--continuations", arguments->continuations,
              "Instead: a file of one JSON object a line, {\"context\": \"...\", "
              "\"continuation\": \"...\"} or with context_ids and continuation_ids; for each "
              "its log-likelihood, and whether every token is the most probable. May be given "
              "several times")
          ->allow_extra_args(false)
          ->excludes(data)
          ->excludes(json);
  command
      ->add_option("--out", arguments->out,
                   "File for the lines of --continuations (default: standard output)")
      ->needs(continuations);
  command->add_option("--batch", arguments->batch, "How many continuations a pass takes")
      ->needs(continuations)
      ->capture_default_str()
      ->check(integer_between(std::int64_t{1}, std::int64_t{4096}));
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "tokenizer.json or *.model, for text and for bits per byte (default: the one in "
      "the run's directory)");
  auto* const split = command->add_option("--split", arguments->split,
                                          "validation, or test: data.test_path and its like");
  split->check(CLI::IsMember({"validation", "test"}))->capture_default_str();
  split->excludes("--data")->excludes(continuations);
  add_weights_options(*command, arguments->weights);
  command
      ->add_option("--batches", arguments->batches,
                   "Evaluate the first N x train.global_batch samples (default: all of the data)")
      ->excludes(continuations)
      ->check(integer_from<std::int64_t>(1));
  add_set_option(*command, arguments->overrides);
  command->footer(
      "Example: launch/mpi_run.sh -np 2 trireme eval runs/gpt_tiny --data "
      "data/packed/kjv/validation");
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace trireme
