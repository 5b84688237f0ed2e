// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <memory>

#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/data_sets.h"
#include "launch/plan/plan_arguments.h"
#include "launch/plan/report.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"

namespace trireme {
namespace {

constexpr std::size_t layouts_shown = 10;

int ranks_of(const PlanArguments& arguments, const plan::Hardware& hardware) {
  if (arguments.ranks) return *arguments.ranks;
  if (arguments.nodes) return *arguments.nodes * hardware.node.ranks;
  fail(ExitCode::config, "plan: give the number of ranks: --ranks N, or --nodes N of {} ranks each",
       hardware.node.ranks);
}

void write_json(const PlanArguments& arguments, const std::string& text) {
  if (!arguments.json.empty()) write_file(arguments.json, text, ExitCode::config);
}

void search(const PlanArguments& arguments, const PlanContext& context, int ranks) {
  LayoutSearch search(context.given, ranks, context.hardware);
  const auto best = search.fastest(layouts_shown);
  write_json(arguments, search_json(best, search, context));
  fmt::print("{}", describe_search(best, search, context));
  if (!best.empty()) return;
  fail(ExitCode::config,
       "no layout of {} ranks fits into the {} of {}: use more ranks, or a smaller model", ranks,
       size_text(static_cast<std::uint64_t>(context.hardware.device.memory_bytes)),
       context.hardware.name);
}

// From "BATCHxTOKENS".
struct Texts {
  std::int64_t batch = 0, tokens = 0;
};
Texts texts_of(const std::string& text) {
  Texts texts;
  const char* const end = text.data() + text.size();
  const auto batch = std::from_chars(text.data(), end, texts.batch);
  if (batch.ec == std::errc() && batch.ptr != end && *batch.ptr == 'x') {
    const auto tokens = std::from_chars(batch.ptr + 1, end, texts.tokens);
    const bool whole = tokens.ec == std::errc() && tokens.ptr == end;
    if (whole && texts.batch >= 1 && texts.batch <= 4096 && texts.tokens >= 1) return texts;
  }
  fail(ExitCode::config,
       "--generate: \"{}\" is not BATCHxTOKENS: how many texts (1 to 4096) a copy of the model "
       "continues at a time, and how many tokens each has at its end, like 8x1024",
       text);
}

void plan_texts(const PlanArguments& arguments, const PlanContext& context, int ranks,
                const Provenance& where) {
  const Texts texts = texts_of(arguments.generate);
  Config given = context.given;
  const ModelTraits traits = traits_of(given.model);
  if (!traits.generates)
    fail(ExitCode::config, "--generate: model.family: {} does not generate text",
         given.model.family);
  if (texts.tokens > traits.context)
    fail(ExitCode::config,
         "--generate: texts of {} tokens, but model.context is {}; give {} at most", texts.tokens,
         traits.context, traits.context);
  given.train.micro_batch = texts.batch;
  given.train.global_batch = texts.batch * ranks;  // divisible for any layout
  const Environment place = context.machine ? planned_environment(ranks, context.hardware)
                                            : planned_environment(ranks, context.given);
  const LayoutPlan plan = plan_generation(
      resolve_config(std::move(given), place, &where, Purpose::generate), texts.tokens);
  write_json(arguments, plan_json(plan, context));
  fmt::print("{}", describe_plan(plan, context));
  if (context.machine && !fits(plan, context.hardware))
    fail(ExitCode::config,
         "{}; continue fewer or shorter texts at a time, or raise parallel.tensor or "
         "parallel.pipeline",
         describe_overflow(plan, context.hardware));
}

std::string way_out(const LayoutPlan& plan, const PlanContext& context, int ranks) {
  LayoutSearch search(context.given, ranks, context.hardware);
  const auto nearest = search.nearest(choice_of(plan.config));
  if (!nearest)
    return fmt::format("no layout of {} ranks fits; use more ranks, or a smaller model", ranks);
  return fmt::format("the nearest layout that fits ({}, {:.1f} ms a step): {}",
                     size_text(memory_needed(*nearest, context.hardware)),
                     1e3 * nearest->step.total,
                     as_flags(context.given, choice_of(nearest->config)));
}

void plan_config(const PlanArguments& arguments, const PlanContext& context, int ranks,
                 const Provenance& where) {
  StepPlanner planner;
  const LayoutPlan plan = plan_layout(
      resolve_config(context.given, planned_environment(ranks, context.hardware), &where),
      context.hardware, planner);
  write_json(arguments, plan_json(plan, context));
  fmt::print("{}", describe_plan(plan, context));
  if (fits(plan, context.hardware)) return;
  fail(ExitCode::config, "{}; {}", describe_overflow(plan, context.hardware),
       way_out(plan, context, ranks));
}

// A rank's memory; needs no hardware file.
void plan_memory_alone(const PlanArguments& arguments, PlanContext& context,
                       const Provenance& where) {
  const bool searches = arguments.search || context.given.parallel.search;
  if (searches || arguments.nodes || arguments.budget > 0 || !arguments.slice.empty()) {
    fail(ExitCode::config,
         "plan: {} needs a machine to plan for: give --hardware, or parallel.hardware in the "
         "config; see configs/hardware",
         searches                   ? "a search"
         : arguments.nodes          ? "--nodes"
         : !arguments.slice.empty() ? "--slice"
                                    : "--token-budget");
  }
  if (!arguments.ranks) {
    fail(ExitCode::config,
         "plan: give the number of ranks: --ranks N; with --hardware FILE it also predicts the "
         "time of a step");
  }
  context.machine = false;
  if (!arguments.generate.empty()) return plan_texts(arguments, context, *arguments.ranks, where);
  const Config config =
      resolve_config(context.given, planned_environment(*arguments.ranks, context.given), &where);
  const LayoutPlan plan{.config = config, .stages = plan_memory_of_stages(config)};
  write_json(arguments, plan_json(plan, context));
  fmt::print("{}", describe_plan(plan, context));
}

void run_plan(const PlanArguments& arguments) {
  if (arguments.print_schedule) return print_schedule(arguments);
  if (arguments.config.empty()) {
    fail(ExitCode::config,
         "plan: give a config file, --ranks and --hardware; or --print-schedule for a schedule");
  }
  Provenance where;
  PlanContext context{.given = load_config(arguments.config, arguments.overrides, &where),
                      .hardware = {},
                      .budget = arguments.budget};
  settle_epochs(context.given, where);
  const std::string& file =
      arguments.hardware.empty() ? context.given.parallel.hardware : arguments.hardware;
  if (file.empty()) return plan_memory_alone(arguments, context, where);
  context.hardware = plan::load_hardware(file);
  if (!arguments.slice.empty())
    context.hardware = plan::slice_of(std::move(context.hardware), arguments.slice);
  check_device_type(context.given, context.hardware, where);
  const int ranks = ranks_of(arguments, context.hardware);
  context.hardware = on_nodes(context.hardware, ranks, arguments.nodes.value_or(0));
  if (!arguments.generate.empty()) return plan_texts(arguments, context, ranks, where);
  if (arguments.search || context.given.parallel.search) return search(arguments, context, ranks);
  plan_config(arguments, context, ranks, where);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("plan", "What a run will do, from its config alone, before it is queued");
  const auto arguments = std::make_shared<PlanArguments>();
  add_config_options(*command, arguments->config, arguments->overrides);
  command->add_option("--ranks", arguments->ranks, "Ranks that the config will run on")
      ->check(integer_between(1, 1 << 20));
  auto* const hardware = command->add_option(
      "--hardware", arguments->hardware,
      "Description of the machine, see configs/hardware (default: parallel.hardware; without "
      "either memory alone is planned)");
  auto* const slice = command->add_option(
      "--slice", arguments->slice,
      "Each rank has this slice of the machine's GPUs (MIG profile), as in 3g.40gb");
  auto* const nodes =
      command->add_option("--nodes", arguments->nodes, "Nodes that share the ranks evenly")
          ->check(integer_between(1, 1 << 20));
  auto* const search = command->add_flag("--search", arguments->search,
                                         "Try every layout and print the ten fastest that fit");
  auto* const budget =
      command
          ->add_option("--token-budget", arguments->budget,
                       "Tokens (or images) to train on, for hours and price (default: the "
                       "config's steps)")
          ->check(number_between(1, 1e24));
  auto* const json =
      command->add_option("--json", arguments->json, "Write the whole plan to this file as well");
  auto* const generate =
      command->add_option("--generate", arguments->generate,
                          "BATCHxTOKENS: memory of `trireme generate` instead, with its cache for "
                          "this many texts at a time and tokens per text, prompts included");
  generate->excludes(search)->excludes(budget);
  auto* const schedule = command->add_flag("--print-schedule", arguments->print_schedule,
                                           "Draw the pipeline schedule and its bubble instead");
  for (CLI::Option* const other : {hardware, slice, nodes, search, budget, json, generate})
    schedule->excludes(other);
  command->add_option("--stages", arguments->stages, "Pipeline stages")
      ->check(integer_between(1, 65536))
      ->needs(schedule);
  command->add_option("--micro-batches", arguments->micro_batches, "Micro-batches per step")
      ->check(integer_between(1, 1 << 20))
      ->needs(schedule);
  command->add_option("--chunks", arguments->chunks, "Model chunks per stage")
      ->check(integer_between(1, 1024))
      ->needs(schedule);
  command->add_option("--schedule", arguments->schedule, "gpipe, 1f1b, interleaved or zero-bubble")
      ->needs(schedule);
  command
      ->add_option("--width", arguments->width,
                   "Columns of the table; 0 = no limit (default: the terminal's)")
      ->check(integer_between(0, 1 << 20))
      ->needs(schedule);
  command->footer(
      "Examples: trireme plan configs/gpt2_1558m.yaml --ranks 8 --hardware "
      "configs/hardware/h100.yaml\n"
      "          trireme plan configs/gpt2_1558m.yaml --ranks 64 --hardware "
      "configs/hardware/h100.yaml --search\n"
      "          trireme plan --print-schedule --stages 4 --micro-batches 8 --schedule "
      "zero-bubble");
  on_one_process(*command, [arguments] { run_plan(*arguments); });
}

}  // namespace trireme
