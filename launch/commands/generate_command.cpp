// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/generate_command.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/utf8.h"
#include "launch/commands/number_check.h"
#include "launch/commands/shared_options.h"
#include "launch/job/requested_config.h"
#include "models/config.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/config/config.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/state/data_record.h"

namespace trireme {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

struct GenerateArguments {
  std::string run;
  WeightsChoice weights;
  std::vector<std::string> overrides;
  std::string prompt = "\n";
  std::string tokenizer;
  std::vector<std::int32_t> prompt_ids;
  std::int64_t tokens = 200;
  SamplingOptions sampling;
};

// What tokens of a run's model stand for.
class Words {
 public:
  Words(const GenerateArguments& arguments, std::int64_t vocabulary)
      : bytes_(vocabulary == byte_vocabulary && arguments.tokenizer.empty()) {
    if (arguments.tokenizer.empty()) return;
    tokenizer_.emplace(arguments.tokenizer);
    require_ids_of_run(arguments.run, IdNames{arguments.tokenizer, tokenizer_->name(), {}});
    if (tokenizer_->vocabulary() > vocabulary)
      fail(ExitCode::config, "--tokenizer: {} has ids up to {}, and the model a vocabulary of {}",
           arguments.tokenizer, tokenizer_->vocabulary() - 1, vocabulary);
  }
  [[nodiscard]] bool known() const { return bytes_ || tokenizer_.has_value(); }
  [[nodiscard]] std::vector<std::int32_t> tokens_of(const std::string& text) const {
    if (bytes_) {
      const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
      return {bytes, bytes + text.size()};
    }
    if (const std::size_t bad = first_invalid_utf8(text); bad != std::string::npos)
      fail(ExitCode::config, "--prompt: byte {} is not UTF-8, which a tokenizer reads", bad);
    std::vector<std::uint32_t> ids;
    TextEncoder(*tokenizer_).encode(text, ids);
    return {ids.begin(), ids.end()};
  }
  [[nodiscard]] std::string text_of(std::int32_t token) const {
    if (bytes_) return {static_cast<char>(token)};
    const auto id = static_cast<std::uint32_t>(token);
    return tokenizer_->text_of({&id, 1});
  }

 private:
  bool bytes_;
  std::optional<Tokenizer> tokenizer_;
};

std::vector<std::int32_t> prompt_tokens(const GenerateArguments& arguments, const Words& words,
                                        std::int64_t vocabulary) {
  if (!arguments.prompt_ids.empty()) return arguments.prompt_ids;
  if (arguments.prompt.empty())
    fail(ExitCode::config,
         "--prompt: is empty, and a text begins with something; give a character or more, or leave "
         "it out to begin with a new line");
  if (!words.known()) {
    fail(ExitCode::config,
         "--prompt: the model has a vocabulary of {} tokens, not bytes; give its tokenizer.json "
         "with --tokenizer, or token ids with --prompt-ids 15,42,...",
         vocabulary);
  }
  return words.tokens_of(arguments.prompt);
}

// One sequence at a time, on the device and the ranks that the job has.
Config config_of(const GenerateArguments& arguments, const RankProcess& process) {
  std::vector<std::string> overrides{"parallel.data=auto"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  Provenance where;
  Config config = load_config(config_file_of_run(arguments.run), overrides, &where);
  config.train.micro_batch = 1;
  config = resolve_config(std::move(config), process.environment(), &where, Purpose::generate);
  const ModelTraits traits = traits_of(config.model);
  if (traits.input != InputKind::tokens || traits.mask_token > 0) {
    fail(ExitCode::config,
         "{}/config.yaml: model.family: {} does not generate text; use a gpt2 run", arguments.run,
         config.model.family);
  }
  return config;
}

// On standard error, which is not part of the text.
void print_origin(const Session& session, const LoadedWeights& weights) {
  const MeshShape& mesh = session.mesh.shape();
  fmt::print(stderr, "weights   {}\n", weights.describe());
  if (mesh.data > 1)
    fmt::print(
        stderr,
        "ranks     {} of {} compute: parallel.tensor {} x parallel.pipeline {} (see --set)\n",
        mesh.tensor * mesh.pipeline, mesh.size(), mesh.tensor, mesh.pipeline);
}

// Writes the text from rank 0; false where the model's answer was not finite.
bool write_text(Engine& engine, const GenerateArguments& arguments, const Words& words,
                const std::vector<std::int32_t>& prompt) {
  const Session& session = engine.session();
  TextGenerator generator = engine.generator(arguments.sampling);
  generator.feed(prompt);
  const bool writes = session.world->rank() == 0;
  if (writes && words.known() && arguments.prompt_ids.empty()) fmt::print("{}", arguments.prompt);
  for (std::int64_t i = 0; i < arguments.tokens; ++i) {
    const std::optional<std::int32_t> token = generator.next();
    if (!token) return false;
    if (!writes) continue;
    if (words.known()) {
      const std::string text = words.text_of(*token);  // may be a part of a letter
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else {
      fmt::print("{}{}", i == 0 ? "" : " ", *token);
    }
    std::fflush(stdout);
  }
  if (writes) std::putchar('\n');
  return true;
}

void generate(const GenerateArguments& arguments) {
  const RankProcess process;
  const Config config = config_of(arguments, process);
  const std::int64_t vocabulary = traits_of(config.model).vocabulary;
  const Words words(arguments, vocabulary);
  const std::vector<std::int32_t> prompt = prompt_tokens(arguments, words, vocabulary);
  Engine engine(process, config, Purpose::generate);
  Session& session = engine.session();
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  if (process.mpi.rank() == 0) print_origin(session, weights);
  // The first copy of the model writes; others would write the same.
  const bool finite = session.mesh.here().data > 0 || write_text(engine, arguments, words, prompt);
  const auto all = gather_texts(*session.world, finite ? "" : "x");
  if (std::ranges::find(all, "x") != all.end())
    refuse_non_finite(session, weights, "the model's answer is not finite");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("generate", "Continue a text with the weights of a GPT run");
  const auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("run", arguments->run, "Run directory")->required();
  add_weights_options(*command, arguments->weights);
  command->add_option("--prompt", arguments->prompt,
                      "Text to continue (models of bytes, or with --tokenizer)");
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "tokenizer.json or *.model that the run's data was packed with: text in and out");
  command
      ->add_option("--prompt-ids", arguments->prompt_ids,
                   "Token ids to continue, separated by commas")
      ->delimiter(',')
      ->check(integer_from<std::int64_t>(0));
  command->add_option("--tokens", arguments->tokens, "How many tokens to add")
      ->capture_default_str()
      ->check(integer_between(std::int64_t{1}, std::int64_t{1'000'000}));
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "0 takes the likeliest token every time")
      ->capture_default_str()
      ->check(number_between(0, 100));
  command
      ->add_option("--top-k", arguments->sampling.top_k,
                   "Draw among the k likeliest tokens; 0 = all")
      ->capture_default_str()
      ->check(integer_from<std::int64_t>(0));
  command->add_option("--seed", arguments->sampling.seed, "Seed of the draws")
      ->capture_default_str()
      ->check(integer_from<std::uint64_t>(0));
  add_set_option(*command, arguments->overrides,
                 ": device.type, precision, or parallel.tensor and parallel.pipeline, over which "
                 "ranks share one copy of the model");
  command->footer(
      "Example: trireme generate runs/gpt_tiny --prompt \"In the beginning\" --tokens 300");
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace trireme
