// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
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
  bool chat = false;
  std::string chat_template, system;
  std::int64_t samples = 1;
};

// The template named, or the one kept in the run.
std::optional<ChatPieces> chat_of(const GenerateArguments& arguments) {
  if (!arguments.chat) return std::nullopt;
  std::string name = arguments.chat_template;
  if (name.empty()) name = arguments.run + "/chat.json";
  if (arguments.chat_template.empty() && !std::filesystem::exists(name))
    fail(ExitCode::config,
         "--chat: {} is not there; make it from the model's own template by "
         "scripts/pack_chats.py {} --pieces {}, or name chatml, llama3 or such a file by "
         "--chat-template",
         name, arguments.run, name);
  return std::make_optional<ChatPieces>(name);
}

Prompt prompt_of_chat(const GenerateArguments& arguments, const std::string& text,
                      const ChatPieces& chat, const Words& words) {
  std::vector<ChatMessage> messages;
  if (!arguments.system.empty()) messages.push_back({"system", arguments.system});
  messages.push_back({"user", text});
  return {.text = "",
          .ids = words.tokens_of(chat.prompt(messages, "--chat"), "--chat"),
          .where = "--prompt"};
}

std::vector<Prompt> prompts_of(const GenerateArguments& arguments, const Words& words,
                               const ChatPieces* chat) {
  if (!arguments.prompt_file.empty()) return read_prompts(arguments.prompt_file, words, chat);
  if (!arguments.prompt_ids.empty())
    return {{.text = "", .ids = arguments.prompt_ids, .where = "--prompt-ids"}};
  std::vector<Prompt> prompts;
  for (const std::string& text : arguments.prompts)
    prompts.push_back(chat != nullptr ? prompt_of_chat(arguments, text, *chat, words)
                                      : prompt_of_text(text, words));
  if (prompts.empty() && chat != nullptr)
    fail(ExitCode::config, "--chat: give the user's message by --prompt, or --prompts");
  if (prompts.empty()) prompts.push_back(prompt_of_text("\n", words));
  return prompts;
}

// Each prompt `samples` times in a row, drawn with different seeds.
std::vector<Prompt> repeated(const std::vector<Prompt>& prompts, std::int64_t samples) {
  std::vector<Prompt> all;
  for (const Prompt& prompt : prompts) {
    for (std::int64_t i = 0; i < samples; ++i) {
      all.push_back(prompt);
      all.back().sample = static_cast<std::uint64_t>(i);
    }
  }
  return all;
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
  if (mesh.sample_ranks() > 1)
    fmt::print(
        stderr,
        "ranks     {} copies of the model on {} each (parallel.context {} x parallel.tensor {} x "
        "parallel.pipeline {}) share {}\n",
        mesh.sample_ranks(), mesh.context * mesh.tensor * mesh.pipeline, mesh.context, mesh.tensor,
        mesh.pipeline,
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
  if (arguments.samples > 1 && arguments.sampling.temperature == 0)
    fail(ExitCode::config, "--samples: {} with --temperature 0 would all be equal; raise it",
         arguments.samples);
  const std::optional<ChatPieces> chat = chat_of(arguments);
  const std::vector<Prompt> prompts =
      repeated(prompts_of(arguments, words, chat ? &*chat : nullptr), arguments.samples);
  GenerateArguments ended = arguments;
  if (chat && !chat->end().empty()) ended.stop.ids.push_back(words.id_of(chat->end(), "--chat"));
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
  auto* const prompt_ids = command->get_option("--prompt-ids");
  add_value(*command, "--tokens", arguments->stop.tokens, "How many tokens to add at most",
            integer_between(std::int64_t{1}, std::int64_t{1'000'000}));
  add_value(*command, "--temperature", arguments->sampling.temperature,
            "0 always takes the most probable token", number_between(0, 100));
  add_value(*command, "--top-k", arguments->sampling.top_k,
            "Draw among the k most probable tokens; 0 = all", integer_from<std::int64_t>(0));
  add_value(*command, "--top-p", arguments->sampling.top_p,
            "Draw among the most probable tokens that together have this probability",
            number_between(0, 1));
  auto* const stop =
      command->add_option("--stop", arguments->stop.texts,
                          "Stop sequence: generation ends before it; may be given several times");
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
  auto* const chat = command->add_flag(
      "--chat", arguments->chat,
      "Prompts are messages of a user, and the text the model's answer; --prompts has lines of "
      "{\"messages\": [{\"role\": ..., \"content\": ...}, ...]}");
  chat->excludes(prompt_ids);
  command
      ->add_option("--chat-template", arguments->chat_template,
                   "chatml, llama3, or a file of scripts/pack_chats.py --pieces (default: "
                   "chat.json in the run's directory)")
      ->needs(chat);
  command->add_option("--system", arguments->system, "The system's message, before --prompt")
      ->needs(chat)
      ->excludes(file);
  add_value(*command, "--samples", arguments->samples,
            "How many texts per prompt; number i (from 0) is that of one text with --seed plus i",
            integer_between(std::int64_t{1}, std::int64_t{100'000}));
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
