// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "launch/bench/model/measure.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "models/gpt/gpt.h"
#include "models/llama/llama.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

// Above this power of the width a layer's activations count as growing: a few steps at a few widths
// have an error of about 0.1.
constexpr double growing = 0.25;

struct CoordinateArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t steps = 4;
  std::vector<std::int64_t> factors{1, 2, 4, 8};
};

// Mean magnitudes by layer, the logits last.
using Sizes = std::vector<double>;

struct Width {
  std::int64_t hidden = 0;
  Sizes before{}, after{};  // per step, and over all steps
};

// With more heads of the same size.
Config widened(Config config, std::int64_t factor, bool transfers) {
  const auto widen = [&](auto& model) {
    const std::int64_t base = model.mup_base_width > 0 ? model.mup_base_width : model.hidden;
    model.mup_base_width = transfers ? base : 0;
    model.hidden *= factor;
    model.heads *= factor;
  };
  if (config.model.family == gpt2_name) {
    widen(config.model.as<GptOptions>());
    return config;
  }
  auto& model = config.model.as<LlamaOptions>();
  widen(model);
  model.kv_heads *= factor;
  model.intermediate *= factor;
  return config;
}

double mean_magnitude(Session& session, const Tensor& values, std::int64_t count) {
  Stream& stream = *session.streams.compute;
  const auto bytes = static_cast<std::size_t>(values.count()) * sizeof(float);
  const Buffer floats(*session.device, bytes, MemoryKind::device);
  const Buffer host(*session.device, bytes, MemoryKind::host);
  const Tensor all = floats.view(DType::f32, Shape{values.count()});
  if (values.dtype == DType::f32) {
    session.device->copy(stream, all.data, values.data, all.bytes());
  } else {
    ops::cast(stream, all, values.reshaped(all.shape));
  }
  session.device->copy(stream, host.data(), all.data, all.bytes());
  stream.synchronize();
  const auto* const from = reinterpret_cast<const float*>(host.data());
  double sum = 0;
  for (std::int64_t i = 0; i < values.count(); ++i)
    sum += std::abs(static_cast<double>(from[i]));
  return sum / static_cast<double>(count);
}

Sizes sizes_of(Engine& engine) {
  Session& session = engine.session();
  Model& model = *session.model;
  const Batch& batch =
      engine.training().batches->next(*session.streams.copy, *session.streams.compute);
  Context context = model.context(*session.streams.compute, batch, /*training=*/false);
  context.tensor = &session.tensor;
  context.experts = session.experts;
  model.forward(context);
  Sizes sizes;
  for (std::size_t i = 0; i + 1 < session.layers.size(); ++i) {
    const Tensor values = model.output_of(context, i);
    sizes.push_back(mean_magnitude(session, values, values.count()));
  }
  // Padded classes are zero.
  const HeadInfo& head = model.head();
  sizes.push_back(mean_magnitude(session, context(head.logits), head.targets * head.classes));
  return sizes;
}

Width measure(const Config& config, std::int64_t hidden, std::int64_t steps) {
  const std::shared_ptr<Device> device = Device::create(device_type(config));
  Engine engine(single_resources(device), config, Purpose::train,
                {.batches = model_bench::synthetic_batches});
  engine.begin();
  Width width{.hidden = hidden, .before = sizes_of(engine)};
  for (std::int64_t step = 0; step < steps; ++step)
    static_cast<void>(engine.step());
  engine.training().state->engine.settle();
  width.after = sizes_of(engine);
  return width;
}

// The exponent by which a layer's magnitudes grow with the width: least squares of logarithms.
double power_of(const std::vector<Width>& widths, Sizes Width::*when, std::size_t layer) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Width& width : widths) {
    const double a = std::log(static_cast<double>(width.hidden));
    const double b = std::log(std::max((width.*when)[layer], 1e-30));
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  const auto n = static_cast<double>(widths.size());
  return (n * xy - x * y) / (n * xx - x * x);
}

// Prints a table and returns its largest exponent.
double print_table(const std::vector<Width>& widths, Sizes Width::*when,
                   const std::vector<std::string>& layers, const std::string& title) {
  fmt::print("{}\n{:<14}", title, "layer");
  for (const Width& width : widths)
    fmt::print("{:>11}", width.hidden);
  fmt::print("{:>11}\n", "power");
  double largest = -INFINITY;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    fmt::print("{:<14}", layers[layer]);
    for (const Width& width : widths)
      fmt::print("{:>11.4g}", (width.*when)[layer]);
    const double power = power_of(widths, when, layer);
    fmt::print("{:>11.2f}\n", power);
    largest = std::max(largest, power);
  }
  return largest;
}

Config narrow_config(const CoordinateArguments& arguments) {
  Provenance where;
  Config config = load_config(arguments.config, arguments.overrides, &where);
  if (config.model.family != gpt2_name && config.model.family != llama_name)
    fail(ExitCode::config,
         "{}: {}; only families gpt2 and llama support the transfer between widths",
         where.describe("model.family"), config.model.family);
  config.lr_schedule = {.name = LrDecay::constant};
  config.train.clip_norm = 0;
  config.train.batch_ramp.clear();
  return model_bench::on_one_rank(std::move(config), {.ranks = 1}, where);
}

void check_coordinates(const CoordinateArguments& arguments) {
  if (std::ranges::all_of(arguments.factors,
                          [&](std::int64_t factor) { return factor == arguments.factors.front(); }))
    fail(ExitCode::config, "--factors: give two widths or more to see whether activations grow");
  const Config narrow = narrow_config(arguments);
  const auto hidden_of = [](const Config& config) {
    return config.model.family == gpt2_name ? config.model.as<GptOptions>().hidden
                                            : config.model.as<LlamaOptions>().hidden;
  };
  // Refuses invalid configs before any measurement.
  static_cast<void>(resolve_config(widened(narrow, 1, /*transfers=*/true), {.ranks = 1}, nullptr));
  for (const bool transfers : {false, true}) {
    std::vector<Width> widths;
    std::vector<std::string> layers;
    for (const std::int64_t factor : arguments.factors) {
      const Config config =
          resolve_config(widened(narrow, factor, transfers), {.ranks = 1}, nullptr);
      if (layers.empty()) {
        for (const LayerSummary& layer :
             summarize(make_chain(config), device_type(config), {.micro_batch = 1}))
          layers.push_back(layer.name);
        layers.back() = "logits";
      }
      widths.push_back(measure(config, hidden_of(config), arguments.steps));
    }
    const std::string name = transfers ? "muP" : "standard parametrisation";
    print_table(widths, &Width::before, layers,
                fmt::format("{}: mean |activation| before the first step, by width", name));
    const double power = print_table(widths, &Width::after, layers,
                                     fmt::format("{}: after {} steps", name, arguments.steps));
    fmt::print("{}: activations {} with width: power {:.2f} at most\n\n", name,
               power > growing ? "grow" : "do not grow", power);
  }
}

}  // namespace

void add_bench_coordinates(CLI::App& bench_command) {
  auto* const command = bench_command.add_subcommand(
      "coordinates",
      "How large activations get at several widths, with the standard parametrisation and with "
      "muP (model.mup_base_width)");
  const auto arguments = std::make_shared<CoordinateArguments>();
  add_config_options(*command, arguments->config, arguments->overrides)->required();
  add_value(*command, "--steps", arguments->steps, "How many steps of training",
            integer_between(std::int64_t{1}, std::int64_t{1000}));
  command
      ->add_option("--factors", arguments->factors,
                   "Widths, as multiples of the config's, separated by commas")
      ->delimiter(',')
      ->expected(2, 16)
      ->check(integer_between(std::int64_t{1}, std::int64_t{1024}))
      ->capture_default_str();
  command->footer(
      "Example: trireme bench coordinates configs/gpt_tiny.yaml --set model.hidden=64 "
      "--set model.heads=1");
  on_one_process(*command, [arguments] { check_coordinates(*arguments); });
}

}  // namespace trireme
