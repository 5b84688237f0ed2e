// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/engine.h"
#include "launch/guard.h"
#include "launch/job/requested_config.h"
#include "launch/text/continuation.h"
#include "models/config.h"
#include "runtime/config/config.h"

namespace trireme {
namespace {

struct GenerateArguments {
  std::string run;
  WeightsChoice weights;
  std::vector<std::string> overrides;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::vector<std::int32_t> prompt_ids;
  std::string tokenizer;
  StopRules stop{.tokens = 200, .texts = {}, .ids = {}};
  SamplingOptions sampling;
  std::int64_t forget = TextGenerator::half_the_context;
  std::int64_t batch = 8;
  bool json = false;
};

std::vector<Prompt> prompts_of(const GenerateArguments& arguments, const Words& words) {
  if (!arguments.prompt_file.empty()) return read_prompts(arguments.prompt_file, words);
  if (!arguments.prompt_ids.empty()) return {{"", arguments.prompt_ids, "--prompt-ids"}};
  std::vector<Prompt> prompts;
  for (const std::string& text : arguments.prompts)
    prompts.push_back(prompt_of_text(text, words));
  if (prompts.empty()) prompts.push_back(prompt_of_text("\n", words));
  return prompts;
}

// For the device and ranks of this job.
Config config_of(const GenerateArguments& arguments, const RankProcess& process,
                 Provenance& where) {
  std::vector<std::string> overrides{"parallel.data=auto"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  Config config = load_config(config_file_of_run(arguments.run), overrides, &where);
  if (!traits_of(config.model).generates) {
    fail(ExitCode::config,
         "{}/config.yaml: model.family: {} does not generate text; use a gpt2 or llama run",
         arguments.run, config.model.family);
  }
  config.train.micro_batch = 1;
  return resolve_config(std::move(config), process.environment(), &where, Purpose::generate);
}

// Positions of the longest text.
std::int64_t capacity_for(const std::vector<Prompt>& prompts, std::int64_t tokens) {
  std::size_t longest = 0;
  for (const Prompt& prompt : prompts)
    longest = std::max(longest, prompt.ids.size());
  return static_cast<std::int64_t>(longest) + tokens;
}

// On standard error, separate from the text.
void print_origin(const Session& session, const LoadedWeights& weights, std::size_t prompts) {
  const MeshShape& mesh = session.mesh.shape();
  constexpr double mib = 1 << 20;
  fmt::print(stderr, "weights   {}\ncache     {:.1f} MiB a rank: {} of {} positions\n",
             weights.describe(), static_cast<double>(session.model->cache_bytes()) / mib,
             session.config.train.micro_batch == 1
                 ? "a text"
                 : fmt::format("{} texts", session.config.train.micro_batch),
             session.decode.capacity);
  if (mesh.data > 1)
    fmt::print(
        stderr,
        "ranks     {} copies of the model on {} each (parallel.tensor {} x "
        "parallel.pipeline {}) share {}\n",
        mesh.data, mesh.tensor * mesh.pipeline, mesh.tensor, mesh.pipeline,
        prompts == 1 ? "one prompt: the others are idle" : fmt::format("{} prompts", prompts));
}

// Repeatable; text in brackets is not parsed as a list.
void one_text_each(CLI::Option& option) {
  option.expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void generate(const GenerateArguments& arguments) {
  end_with_reader();
  give_text_as_it_is();
  const RankProcess process;
  Provenance where;
  Config config = config_of(arguments, process, where);
  const Words words(arguments.run, arguments.tokenizer, traits_of(config.model).vocabulary);
  const std::int64_t context = traits_of(config.model).context;
  if (arguments.forget > context)
    fail(ExitCode::config, "--forget: {} tokens of a context of {}; give {} at most",
         arguments.forget, context, context);
  if (!arguments.stop.texts.empty() && !words.known())
    fail(ExitCode::config, "--stop: the model has no tokenizer; give --tokenizer, or --stop-ids");
  const std::vector<Prompt> prompts = prompts_of(arguments, words);
  GenerateArguments ended = arguments;
  std::ranges::copy(end_tokens_of_run(arguments.run), std::back_inserter(ended.stop.ids));
  const auto count = static_cast<std::int64_t>(prompts.size());
  const std::int64_t of_copy = (count + config.parallel.data - 1) / config.parallel.data;
  config.train.micro_batch = std::min(arguments.batch, of_copy);
  Engine engine(process, config, Purpose::generate,
                {.text_capacity = capacity_for(prompts, arguments.stop.tokens)});
  Session& session = engine.session();
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  if (process.mpi.rank() == 0) print_origin(session, weights, prompts.size());
  // Texts shorter than the context drop nothing.
  const std::int64_t forget = std::min(arguments.forget, session.decode.capacity);
  TextGenerator generator = engine.generator(arguments.sampling, forget);
  // On all ranks, before any of them writes.
  for (const Prompt& prompt : prompts)
    with_context(prompt.where, [&] { generator.require_prompt(prompt.ids); });
  const bool lines = arguments.json || prompts.size() > 1;
  if (!continue_prompts(session, generator, words, ended.stop, prompts, lines))
    refuse_non_finite(session, weights, "the model's output is not finite");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("generate", "Continue a text with the weights of a GPT run");
  const auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("run", arguments->run, "Run directory")->required();
  add_weights_options(*command, arguments->weights);
  auto* const prompt = command->add_option("--prompt", arguments->prompts,
                                           "Text to continue (models of bytes, or with a "
                                           "tokenizer); several are continued together, and "
                                           "written as JSON lines");
  one_text_each(*prompt);
  auto* const file = command->add_option(
      "--prompts", arguments->prompt_file,
      "File of one JSON object a line, {\"prompt\": \"...\"} or {\"prompt_ids\": [...]}");
  file->excludes(prompt);
  command->add_option("--tokenizer", arguments->tokenizer,
                      "tokenizer.json or *.model that the run's data was packed with: text in and "
                      "out (default: the "
                      "one in the run's directory)");
  command
      ->add_option("--prompt-ids", arguments->prompt_ids,
                   "Token ids to continue, separated by commas")
      ->delimiter(',')
      ->check(integer_from<std::int32_t>(0))
      ->excludes(prompt)
      ->excludes(file);
  add_value(*command, "--tokens", arguments->stop.tokens, "How many tokens to add at most",
            integer_between(std::int64_t{1}, std::int64_t{1'000'000}));
  add_value(*command, "--temperature", arguments->sampling.temperature,
            "0 takes the likeliest token every time", number_between(0, 100));
  add_value(*command, "--top-k", arguments->sampling.top_k,
            "Draw among the k likeliest tokens; 0 = all", integer_from<std::int64_t>(0));
  add_value(*command, "--top-p", arguments->sampling.top_p,
            "Draw among the likeliest tokens that together have this probability",
            number_between(0, 1));
  auto* const stop = command->add_option("--stop", arguments->stop.texts,
                                         "Text to end in front of; may be given several times");
  one_text_each(*stop);
  stop->check([](const std::string& text) { return text.empty() ? "is empty" : std::string(); });
  command
      ->add_option("--stop-ids", arguments->stop.ids,
                   "Token ids before which a text ends, separated by commas, in addition to those "
                   "of generation_config.json in the run's directory")
      ->delimiter(',')
      ->check(integer_from<std::int32_t>(0));
  command
      ->add_option("--forget", arguments->forget,
                   "How many tokens of a full context are forgotten at once, the oldest first; 0 "
                   "ends there (default: half of it)")
      ->check(integer_from<std::int64_t>(0));
  add_value(*command, "--batch", arguments->batch, "How many prompts to continue at a time",
            integer_between(std::int64_t{1}, std::int64_t{4096}));
  command->add_flag("--json", arguments->json, "JSON lines: prompt, text, ids, reason of the end");
  add_value(*command, "--seed", arguments->sampling.seed, "Seed of the draws",
            integer_from<std::uint64_t>(0));
  add_set_option(*command, arguments->overrides,
                 ": device.type, precision, or parallel.tensor and parallel.pipeline, over which "
                 "ranks share a copy of the model; copies share the prompts");
  command->footer(
      "Example: trireme generate runs/gpt_tiny --prompt \"In the beginning\" --tokens 300");
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace trireme
