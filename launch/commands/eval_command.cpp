// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/eval_command.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <numbers>

#include "launch/job/data_record.h"
#include "launch/job/session.h"
#include "runtime/checkpoint/weights.h"

namespace trireme {
namespace {

struct EvalArguments {
  std::string run;
  std::string data;
  std::string weights;
  std::vector<std::string> overrides;
};

void evaluate_run(const EvalArguments& arguments) {
  const RankProcess process;
  Provenance where;
  // The run may have trained on another number of ranks: all ranks that are here share the
  // evaluation.
  std::vector<std::string> overrides{"parallel.data=auto"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  const Config config =
      resolve_config(load_config(arguments.run + "/config.yaml", overrides, &where),
                     process.environment(), &where, Purpose::evaluate);
  Session session(process, config, /*training=*/false);
  const std::string weights =
      arguments.weights.empty() ? arguments.run + "/weights.safetensors" : arguments.weights;
  load_weights(weights, session.model->params(), *session.streams.compute);
  const std::string data = !arguments.data.empty()                ? arguments.data
                           : !config.data.validation_path.empty() ? config.data.validation_path
                                                                  : config.data.path;
  PipelineRunner runner(*session.device, *session.model, session.mesh.pipeline(),
                        *session.streams.compute, session.pipeline);
  ValidationPass pass(session, runner, data);
  require_ids_of_run(arguments.run, pass.dataset());
  const EvaluationResult result = pass.run();
  static_cast<void>(pass.watch().finish());
  if (process.mpi.rank() != 0) return;
  fmt::print("weights   {}\ndata      {} ({} samples)\nloss      {:.6f} nats\n", weights, data,
             pass.dataset().size(), result.loss);
  if (session.traits.input == InputKind::tokens) {
    fmt::print("perplexity {:.4f}\nbits per token {:.6f}\n", std::exp(result.loss),
               result.loss / std::numbers::ln2);
  }
  fmt::print("accuracy  {:.4f} %\n", 100 * result.accuracy);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("eval", "Loss and accuracy of a run's weights on a data set");
  const auto arguments = std::make_shared<EvalArguments>();
  command
      ->add_option("run", arguments->run, "Run directory with config.yaml and weights.safetensors")
      ->required();
  command->add_option("--data", arguments->data, "Data set (default: the run's validation set)");
  command->add_option("--weights", arguments->weights,
                      "Weights file (default: RUN/weights.safetensors)");
  command->add_option("--set", arguments->overrides, "Override one key of the run's config")
      ->take_all()
      ->allow_extra_args(false);
  command->footer(
      "Example: mpirun -np 2 trireme eval runs/gpt_tiny --data data/packed/kjv/validation");
  command->callback([arguments] { evaluate_run(*arguments); });
}

}  // namespace trireme
