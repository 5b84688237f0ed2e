// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/study.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "launch/engine/data_sets.h"
#include "launch/plan/layout_plan.h"
#include "launch/plan/layout_search.h"
#include "models/config.h"
#include "runtime/base/error.h"

namespace trireme::scale {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int positive(std::string_view text, std::string_view option) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 1)
    fail(ExitCode::config, "{}: '{}' is not a whole number above 0", option, text);
  return value;
}

// "2x2x1".
SpatialExtents parse_spatial(std::string_view text) {
  const auto parts = split(text, 'x');
  SpatialExtents spatial{};
  if (parts.size() != spatial.size()) {
    fail(ExitCode::config,
         "--layouts: spatial: '{}' is not the ranks along depth, height and width, as in 2x2x1; an "
         "image's depth is 1",
         text);
  }
  std::ranges::transform(parts, spatial.begin(), [](std::string_view part) {
    return positive(part, "--layouts: spatial");
  });
  return spatial;
}

StudyLayout with_spatial(MeshShape mesh, std::span<const std::int64_t> ranks) {
  SpatialExtents spatial{1, 1, 1};
  std::ranges::copy(ranks, spatial.begin());
  const auto sharing = static_cast<int>(SpatialSplit{spatial}.rank_count());
  if (sharing > 1) mesh.tensor = sharing;
  return {mesh, spatial};
}

StudyLayout parse_layout(std::string_view text) {
  MeshShape shape{.data = 0};
  std::optional<SpatialExtents> spatial;
  for (const std::string_view axis : split(text, ':')) {
    const std::size_t equals = axis.find('=');
    const std::string_view name = axis.substr(0, equals);
    if (name == "spatial" && equals != std::string_view::npos) {
      spatial = parse_spatial(axis.substr(equals + 1));
      continue;
    }
    int* const size = name == "data"       ? &shape.data
                      : name == "tensor"   ? &shape.tensor
                      : name == "pipeline" ? &shape.pipeline
                      : name == "context"  ? &shape.context
                                           : nullptr;
    if (size == nullptr || equals == std::string_view::npos) {
      fail(ExitCode::config,
           "--layouts: '{}' is not an axis; use data=N, tensor=N, context=N, pipeline=N or "
           "spatial=DxHxW, joined by colons within a layout and layouts by commas: "
           "data=4,data=2:tensor=2",
           axis);
    }
    *size = positive(axis.substr(equals + 1), "--layouts: " + std::string(name));
  }
  shape.data *= shape.context;
  if (spatial && shape.tensor > 1)
    fail(ExitCode::config, "--layouts: '{}' has tensor and spatial; use one of them", text);
  return spatial ? with_spatial(shape, *spatial) : StudyLayout{shape};
}

// The layouts with exactly `ranks` ranks. auto: data parallel, with the config's ranks that share a
// sample, in space or time.
std::vector<StudyLayout> layouts_of(int ranks, const std::string& layouts,
                                    const ParallelConfig& parallel) {
  std::vector<StudyLayout> given, fitting;
  if (layouts == "auto") {
    given = {
        with_spatial({.data = 0, .context = static_cast<int>(parallel.context)}, parallel.spatial)};
  } else {
    given = parse_layouts(layouts);
  }
  for (StudyLayout layout : given) {
    if (layout.fit(ranks) && std::ranges::find(fitting, layout) == fitting.end())
      fitting.push_back(layout);
  }
  if (fitting.empty()) {
    fail(ExitCode::config,
         "--layouts: none of {} makes {} ranks; add one, such as data={}, or leave {} out of "
         "--ranks",
         layouts == "auto" ? given.front().text() : layouts, ranks, ranks, ranks);
  }
  return fitting;
}

std::vector<Mode> modes_of(const std::string& mode) {
  if (mode == "both") return {Mode::weak, Mode::strong};
  if (mode == "fixed-loss") return {Mode::fixed_loss};
  return {mode == "strong" ? Mode::strong : Mode::weak};
}

std::vector<std::string> settings_of(const StudyOptions& options, const Point& point) {
  std::vector<std::string> settings = options.overrides;
  settings.insert(settings.end(), point.settings.begin(), point.settings.end());
  const auto set = [&](std::string_view key, const auto& value) {
    settings.push_back(fmt::format("{}={}", key, value));
  };
  set("parallel.search", false);
  set("parallel.data", point.mesh.sample_ranks());
  set("parallel.context", point.mesh.context);
  set("parallel.tensor", point.axes().tensor());
  set("parallel.spatial", fmt::format("[{}]", fmt::join(point.spatial, ", ")));
  set("parallel.pipeline", point.mesh.pipeline);
  set("train.global_batch", point.global_batch);
  set("train.steps", options.steps);
  set("train.log_every", options.steps);
  if (point.mode != Mode::fixed_loss) set("lr_schedule.warmup_steps", 0);
  // Only steps are measured.
  set("data.validation_path", "");
  set("checkpoint.every_steps", 0);
  set("checkpoint.every_minutes", 0);
  return settings;
}

// Proportional to `ranks` / `base`.
std::int64_t batch_of(Mode mode, std::int64_t batch, int ranks, int base) {
  if (mode == Mode::strong) return batch;
  if (batch * ranks % base != 0) {
    fail(ExitCode::config,
         "train.global_batch: {} samples on {} ranks would not be a whole number on {}; use a "
         "multiple of {}",
         batch, base, ranks, base);
  }
  return batch * ranks / base;
}

Point planned_point(Mode mode, Config config, int ranks, int base_ranks) {
  config.train.global_batch = batch_of(mode, config.train.global_batch, ranks, base_ranks);
  LayoutSearch search(config, ranks, plan::load_hardware(config.parallel.hardware));
  const auto best = search.fastest(1);
  if (best.empty()) {
    fail(ExitCode::config,
         "--layouts: auto: none of {} layouts of {} ranks fits into the memory of {}",
         search.tried(), ranks, config.parallel.hardware);
  }
  const LayoutChoice choice = choice_of(best[0].config);
  const StudyLayout layout = with_spatial({.pipeline = static_cast<int>(choice.pipeline),
                                           .data = static_cast<int>(choice.data * choice.context),
                                           .tensor = static_cast<int>(choice.tensor),
                                           .context = static_cast<int>(choice.context)},
                                          choice.spatial);
  return {.mode = mode,
          .mesh = layout.mesh,
          .spatial = layout.spatial,
          .global_batch = config.train.global_batch,
          .settings = changed_settings(config, with_layout(config, choice))};
}

// All points of a mode, by ranks.
std::vector<Point> points_of(const StudyOptions& options, Mode mode, const Config& config) {
  std::vector<Point> points;
  const bool planned = options.layouts == "auto" && !config.parallel.hardware.empty();
  for (const int ranks : options.ranks) {
    if (planned) {
      points.push_back(planned_point(mode, config, ranks, options.ranks.front()));
      continue;
    }
    const std::int64_t batch =
        batch_of(mode, config.train.global_batch, ranks, options.ranks.front());
    for (const StudyLayout& layout : layouts_of(ranks, options.layouts, config.parallel))
      points.push_back(
          {.mode = mode, .mesh = layout.mesh, .spatial = layout.spatial, .global_batch = batch});
  }
  return points;
}

// FLOPs of a layer's forward with one micro-batch: its products with parameters, and all of it.
struct LayerFlops {
  double products = 0, all = 0;
};

LayerFlops flops_of(const LayerSummary& layer, const plan::StepInput& input) {
  const auto rows = static_cast<double>(input.build.micro_batch * input.rows_per_sample);
  LayerFlops flops{.all = layer.forward_flops};
  if (layer.forward_flops == 0) return flops;  // an embedding table
  for (const ParamSpec& spec : layer.params) {
    if (!spec.matrix || spec.shape.rank() != 2) continue;
    flops.products += 2 * rows * static_cast<double>(spec.shape.count());
  }
  // A classifier reads one row of each sample, and convolutions are not products by rows.
  flops.products = std::min(flops.products, flops.all);
  return flops;
}

}  // namespace

Config config_of(const StudyOptions& options, const Point& point) {
  Provenance where;
  Config config = load_config(options.config, settings_of(options, point), &where);
  settle_epochs(config, where);
  return with_context(
      fmt::format("{} scaling, {} ranks as {}", name_of(point.mode), point.ranks(), point.layout()),
      [&] { return resolve_config(config, planned_environment(point.ranks()), &where); });
}

std::string_view name_of(Mode mode) {
  constexpr std::string_view names[] = {"weak", "strong", "fixed-loss"};
  return names[static_cast<std::size_t>(mode)];
}

bool StudyLayout::fit(int ranks) {
  const int others = mesh.tensor * mesh.pipeline;
  if (mesh.data == 0 && ranks % (others * mesh.context) == 0) mesh.data = ranks / others;
  return mesh.size() == ranks;
}

std::string StudyLayout::text() const {
  std::string text = fmt::format("data={}", mesh.sample_ranks());
  if (SpatialSplit{spatial}.rank_count() > 1)
    text += fmt::format(":spatial={}", fmt::join(spatial, "x"));
  else if (mesh.tensor > 1)
    text += fmt::format(":tensor={}", mesh.tensor);
  if (mesh.context > 1) text += fmt::format(":context={}", mesh.context);
  if (mesh.pipeline > 1) text += fmt::format(":pipeline={}", mesh.pipeline);
  return text;
}

std::string Point::name() const {
  return fmt::format("{}-{}-{}", name_of(mode), ranks(), layout());
}

std::vector<StudyLayout> parse_layouts(std::string_view text) {
  std::vector<StudyLayout> layouts;
  for (const std::string_view layout : split(text, ','))
    layouts.push_back(parse_layout(layout));
  return layouts;
}

std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  for (const std::string_view part : split(text, ','))
    ranks.push_back(positive(part, "--ranks"));
  std::ranges::sort(ranks);
  const auto [first, last] = std::ranges::unique(ranks);
  ranks.erase(first, last);
  return ranks;
}

std::vector<std::string> Study::arguments(const Point& point, const std::string& directory) const {
  std::vector<std::string> words{"train", options.config, "--split-times"};
  for (const std::string& setting : settings_of(options, point)) {
    words.insert(words.end(), {"--set", setting});
  }
  words.insert(words.end(), {"--set", "run.directory=" + directory});
  return words;
}

Study plan_study(const StudyOptions& options) {
  const bool to_loss = options.mode == "fixed-loss";
  if (!to_loss && options.warmup >= options.steps) {
    fail(ExitCode::config, "--steps: of {} steps none are left to measure after --warmup {}",
         options.steps, options.warmup);
  }
  if (to_loss != (options.target_loss > 0)) {
    fail(ExitCode::config, "--mode: {} {} --target-loss; {}", options.mode,
         to_loss ? "needs" : "does not use",
         to_loss ? "give the training loss to reach" : "use --mode fixed-loss with it");
  }
  Provenance where;
  const Config config = load_config(options.config, options.overrides, &where);
  if (options.layouts == "auto" && !config.parallel.hardware.empty())
    check_device_type(config, plan::load_hardware(config.parallel.hardware), where);
  Study study{.options = options, .traits = traits_of(config.model), .points = {}, .identity = {}};
  for (const Mode mode : modes_of(options.mode)) {
    for (Point& point : points_of(options, mode, config)) {
      point.work = work_of(config_of(options, point));
      study.points.push_back(std::move(point));
    }
  }
  study.hardware = config.parallel.hardware;
  study.identity = {{"CONFIG and --set", to_yaml(config)},
                    {"--ranks", fmt::format("{}", fmt::join(options.ranks, ","))},
                    {"--mode", to_loss ? fmt::format("{} {} {}", options.mode, options.target_loss,
                                                     options.loss_window)
                                       : options.mode},
                    {"--layouts", options.layouts},
                    {"--repeats", fmt::format("{}", options.repeats)},
                    {"--steps", fmt::format("{}", options.steps)},
                    {"--warmup", fmt::format("{}", options.warmup)}};
  return study;
}

PointWork work_of(const Config& config) {
  const PlannedStep planned = planned_step(config);
  const plan::StepInput input = StepPlanner().declared(config);
  const auto micro_batches = static_cast<double>(config.train.global_batch) /
                             static_cast<double>(config.train.micro_batch);
  PointWork work{
      .model = plan::model_flops(input), .peak = planned.peak_flops, .predicted = planned.seconds};
  constexpr double passes = 3;  // forward, and two products of its size in backward
  double repeated = 0;
  for (std::size_t i = 0; i < input.layers.size(); ++i) {
    const LayerFlops flops = flops_of(input.layers[i], input);
    work.six_n += passes * flops.products * micro_batches;
    if (i == 0 || i + 1 == input.layers.size()) continue;  // not a block
    if (input.build.recompute == Recompute::full) repeated += flops.all;
    if (input.build.recompute == Recompute::selective) repeated += flops.all - flops.products;
  }
  work.hardware = work.model + repeated * micro_batches;
  return work;
}

}  // namespace trireme::scale
