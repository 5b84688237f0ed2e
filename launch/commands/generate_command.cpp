// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/generate_command.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/commands/number_check.h"
#include "launch/commands/shared_options.h"
#include "launch/job/requested_config.h"
#include "launch/text/continuation.h"
#include "launch/text/prompts.h"
#include "models/config.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/config/config.h"
#include "runtime/engine/engine.h"

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
  if (!arguments.prompt_ids.empty()) return {{"", arguments.prompt_ids}};
  std::vector<Prompt> prompts;
  for (const std::string& text : arguments.prompts)
    prompts.push_back(prompt_of_text(text, words));
  if (prompts.empty()) prompts.push_back(prompt_of_text("\n", words));
  return prompts;
}

// On the device and the ranks that the job has.
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

// Positions that the longest text fills.
std::int64_t capacity_for(const std::vector<Prompt>& prompts, std::int64_t tokens) {
  std::size_t longest = 0;
  for (const Prompt& prompt : prompts)
    longest = std::max(longest, prompt.ids.size());
  return static_cast<std::int64_t>(longest) + tokens;
}

// On standard error, which is not part of the text.
void print_origin(const Session& session, const LoadedWeights& weights) {
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
        "ranks     {} of {} compute: parallel.tensor {} x parallel.pipeline {} (see --set)\n",
        mesh.tensor * mesh.pipeline, mesh.size(), mesh.tensor, mesh.pipeline);
}

// Continues prompts, as many at a time as the model has texts; the next begins where one has ended.
class Generation {
 public:
  Generation(TextGenerator generator, const GenerateArguments& arguments, const Words& words,
             const std::vector<Prompt>& prompts, bool writes)
      : generator_(std::move(generator)),
        arguments_(arguments),
        words_(words),
        prompts_(prompts),
        lines_(arguments.json || prompts.size() > 1),
        writes_(writes),
        places_(static_cast<std::size_t>(generator_.texts()), prompts.size()),
        continuations_(prompts.size(), Continuation(words, arguments.stop)) {}

  // False where the model's answer was not finite.
  bool run() {
    for (int text = 0; text < generator_.texts(); ++text)
      begin_next(text);
    if (writes_ && !lines_ && words_.known()) write(prompts_.front().text);
    while (printed_ < prompts_.size()) {
      const std::vector<std::int32_t> drawn = generator_.step();
      for (std::size_t text = 0; text < places_.size(); ++text) {
        if (places_[text] == prompts_.size()) continue;
        take(static_cast<int>(text), drawn[text]);
        if (!finite_) return false;
      }
    }
    if (writes_ && !lines_) write("\n");
    return true;
  }

 private:
  void begin_next(int text) {
    generator_.restart(text);
    std::size_t& place = places_[static_cast<std::size_t>(text)];
    place = next_;
    if (next_ == prompts_.size()) return;
    generator_.feed(prompts_[next_++].ids, text);
  }

  void take(int text, std::int32_t token) {
    Continuation& continuation = continuations_[places_[static_cast<std::size_t>(text)]];
    const std::string shown = continuation.take(token);
    finite_ = continuation.reason() != "not_finite";
    if (!lines_ && writes_) {
      if (words_.known()) {
        write(shown);
      } else if (!continuation.over() || continuation.reason() == "length") {
        write(fmt::format("{}{}", continuation.ids().size() == 1 ? "" : " ", token));
      }
    }
    if (!continuation.over()) return;
    begin_next(text);
    print_finished();
  }

  // In the order of the prompts.
  void print_finished() {
    for (; printed_ < prompts_.size() && continuations_[printed_].over(); ++printed_) {
      if (lines_ && writes_) write(line(prompts_[printed_], continuations_[printed_]));
    }
  }

  [[nodiscard]] std::string line(const Prompt& prompt, const Continuation& continuation) const {
    nlohmann::ordered_json object;
    if (!prompt.text.empty()) object["prompt"] = prompt.text;
    if (words_.known()) object["text"] = continuation.text();
    object["ids"] = continuation.ids();
    object["reason"] = continuation.reason();
    // A text may end within a letter.
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  TextGenerator generator_;
  const GenerateArguments& arguments_;
  const Words& words_;
  const std::vector<Prompt>& prompts_;
  bool lines_, writes_;
  std::vector<std::size_t> places_;  // by text: its prompt, or none
  std::vector<Continuation> continuations_;
  std::size_t next_ = 0, printed_ = 0;
  bool finite_ = true;
};

// May be given several times; a text in brackets is no list.
void one_text_each(CLI::Option& option) {
  option.expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void generate(const GenerateArguments& arguments) {
  const RankProcess process;
  Provenance where;
  Config config = config_of(arguments, process, where);
  const Words words(arguments.run, arguments.tokenizer, traits_of(config.model).vocabulary);
  const std::int64_t context = traits_of(config.model).context;
  if (arguments.forget > context)
    fail(ExitCode::config, "--forget: {} tokens of a context of {}; give {} at most",
         arguments.forget, context, context);
  if (!arguments.stop.texts.empty() && !words.known())
    fail(ExitCode::config,
         "--stop: the model's words are not known; give --tokenizer, or --stop-ids");
  const std::vector<Prompt> prompts = prompts_of(arguments, words);
  GenerateArguments ended = arguments;
  std::ranges::copy(end_tokens_of_run(arguments.run), std::back_inserter(ended.stop.ids));
  config.train.micro_batch =
      std::min<std::int64_t>(arguments.batch, static_cast<std::int64_t>(prompts.size()));
  Engine engine(process, config, Purpose::generate,
                {.text_capacity = capacity_for(prompts, arguments.stop.tokens)});
  Session& session = engine.session();
  const LoadedWeights weights = engine.load_weights(arguments.run, arguments.weights);
  if (process.mpi.rank() == 0) print_origin(session, weights);
  // Texts that are shorter than the context forget nothing.
  const std::int64_t forget = std::min(arguments.forget, session.decode.capacity);
  // The first copy of the model writes; others would write the same.
  const bool finite =
      session.mesh.here().data > 0 || Generation(engine.generator(arguments.sampling, forget),
                                                 ended, words, prompts, session.world->rank() == 0)
                                          .run();
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
  command->add_option("--tokens", arguments->stop.tokens, "How many tokens to add at most")
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
  command
      ->add_option("--top-p", arguments->sampling.top_p,
                   "Draw among the likeliest tokens that together have this probability")
      ->capture_default_str()
      ->check(number_between(0, 1));
  auto* const stop = command->add_option("--stop", arguments->stop.texts,
                                         "Text to end in front of; may be given several times");
  one_text_each(*stop);
  stop->check([](const std::string& text) { return text.empty() ? "is empty" : std::string(); });
  command
      ->add_option("--stop-ids", arguments->stop.ids,
                   "Token ids to end in front of, separated by commas, beside those that the "
                   "generation_config.json in the run's directory names")
      ->delimiter(',')
      ->check(integer_from<std::int32_t>(0));
  command
      ->add_option("--forget", arguments->forget,
                   "How many tokens of a full context are forgotten at once, the oldest first; 0 "
                   "ends there (default: half of it)")
      ->check(integer_from<std::int64_t>(0));
  command->add_option("--batch", arguments->batch, "How many prompts to continue at a time")
      ->capture_default_str()
      ->check(integer_between(std::int64_t{1}, std::int64_t{4096}));
  command->add_flag("--json", arguments->json, "JSON lines: prompt, text, ids, reason of the end");
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
