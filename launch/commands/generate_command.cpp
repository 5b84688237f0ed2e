// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/generate_command.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "launch/job/text_generator.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/config/config.h"
#include "runtime/device/cpu/cpu_features.h"

namespace trireme {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

struct GenerateArguments {
  std::string run;
  std::string weights;
  std::string prompt = "\n";
  std::vector<std::int32_t> prompt_ids;
  std::int64_t tokens = 200;
  SamplingOptions sampling;
};

std::vector<std::int32_t> prompt_tokens(const GenerateArguments& arguments, const Config& config) {
  if (!arguments.prompt_ids.empty()) return arguments.prompt_ids;
  if (config.model.vocabulary != byte_vocabulary) {
    fail(ExitCode::config,
         "--prompt: the model has a vocabulary of {} tokens, not bytes; give token ids with "
         "--prompt-ids 15,42,...",
         config.model.vocabulary);
  }
  std::vector<std::int32_t> tokens;
  for (const char letter : arguments.prompt)
    tokens.push_back(static_cast<unsigned char>(letter));
  return tokens;
}

void generate(const GenerateArguments& arguments) {
  log::initialize(0);
  Provenance where;
  const Config config =
      resolve_config(load_config(arguments.run + "/config.yaml", {"parallel.data=1"}, &where),
                     {.ranks = 1,
                      .cuda_in_build = Device::in_build(DeviceType::cuda),
                      .gpus = Device::count(DeviceType::cuda),
                      .native_bf16 = cpu_has_bf16()},
                     &where, Purpose::generate);
  if (config.model.family != "gpt2") {
    fail(ExitCode::config,
         "{}/config.yaml: model.family: {} does not generate text; use a gpt2 run", arguments.run,
         config.model.family);
  }
  const std::vector<std::int32_t> prompt = prompt_tokens(arguments, config);
  TextGenerator generator(config, arguments.sampling);
  load_weights(
      arguments.weights.empty() ? arguments.run + "/weights.safetensors" : arguments.weights,
      generator.params(), generator.stream());
  generator.feed(prompt);
  const bool bytes = config.model.vocabulary == byte_vocabulary;
  if (bytes && arguments.prompt_ids.empty()) fmt::print("{}", arguments.prompt);
  for (std::int64_t i = 0; i < arguments.tokens; ++i) {
    const std::int32_t token = generator.next();
    if (bytes) {
      std::putchar(token);
    } else {
      fmt::print("{}{}", i == 0 ? "" : " ", token);
    }
    std::fflush(stdout);
  }
  std::putchar('\n');
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("generate", "Continue a text with the weights of a GPT run");
  const auto arguments = std::make_shared<GenerateArguments>();
  command
      ->add_option("run", arguments->run, "Run directory with config.yaml and weights.safetensors")
      ->required();
  command->add_option("--weights", arguments->weights,
                      "Weights file (default: RUN/weights.safetensors)");
  command->add_option("--prompt", arguments->prompt, "Text to continue (byte-level models)");
  command
      ->add_option("--prompt-ids", arguments->prompt_ids,
                   "Token ids to continue, separated by commas")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  command->add_option("--tokens", arguments->tokens, "How many tokens to add")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "0 takes the likeliest token every time")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  command
      ->add_option("--top-k", arguments->sampling.top_k,
                   "Draw among the k likeliest tokens; 0 = all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", arguments->sampling.seed, "Seed of the draws")
      ->capture_default_str();
  command->footer(
      "Example: trireme generate runs/gpt_tiny --prompt \"In the beginning\" --tokens 300");
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace trireme
