// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/step_plan.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "launch/bench/model/measure.h"
#include "launch/engine/engine.h"
#include "launch/engine/options.h"
#include "launch/engine/session.h"
#include "runtime/config/batch_slices.h"
#include "runtime/device/work_log.h"

namespace trireme {
namespace {

// In a shard, or in files read in place: float32 without compression.
double stored_sample_bytes(const ModelTraits& traits, bool in_place) {
  if (traits.input != InputKind::tokens) {
    return static_cast<double>(std::max<std::int64_t>(traits.image_depth, 1) * traits.image_size *
                               traits.image_width * traits.channels * (in_place ? 4 : 1));
  }
  constexpr std::int64_t ids_in_two_bytes = 65536;
  return static_cast<double>(traits.context * (traits.vocabulary <= ids_in_two_bytes ? 2 : 4));
}

}  // namespace

// Layouts depend on names only where they say which parameter is the original of tied ones.
int StepPlanner::kind_of(std::vector<ParamSpec> params) {
  for (ParamSpec& spec : params)
    spec.name = fmt::format("{} {} {} {} {} {} {} {} {} {}", spec.tie, spec.is_copy(), spec.matrix,
                            spec.shard_axis, spec.expert, spec.shard_parts, spec.shard_lead,
                            spec.decay, spec.adapter, spec.init.rate);
  const auto found = std::ranges::find(kinds_, params);
  const auto kind = static_cast<int>(found - kinds_.begin());
  if (found == kinds_.end()) kinds_.push_back(std::move(params));
  return kind;
}

StepPlanner::Layers& StepPlanner::layers(const Config& config) {
  const BuildOptions build = build_options(config, /*here=*/{}, /*training=*/true);
  const Key key{config.parallel.tensor,
                config.parallel.expert_data_ranks(),
                config.parallel.context,
                config.parallel.blocks(),
                build.context.mode,
                config.parallel.spatial,
                config.parallel.spatial_slabs,
                config.parallel.sequence,
                config.train.recompute,
                config.train.micro_batch,
                build.split_backward};
  const auto [found, fresh] = known_.try_emplace(key);
  if (fresh) {
    plan::StepInput& input = found->second.input;
    input.layers = summarize(make_chain(config), device_type(config), build);
    if (flops_.empty())
      flops_ = flops_of_layers({make_chain(config), traits_of(config.model)}, config);
    for (std::size_t i = 0; i < input.layers.size(); ++i) {
      input.layers[i].forward_flops = flops_[i] * static_cast<double>(config.train.micro_batch);
      input.kinds.push_back(kind_of(input.layers[i].params));
    }
  }
  return found->second;
}

const plan::StepInput& StepPlanner::input(const Config& config) {
  Layers& known = layers(config);
  if (known.input.work.empty()) {
    CountedWork counted = count_work(config);
    known.input.work = std::move(counted.layers);
    known.optimizer_bytes = counted.optimizer_bytes;
  }
  return declared(config);
}

const plan::StepInput& StepPlanner::declared(const Config& config) {
  const ModelTraits traits = traits_of(config.model);
  TRIREME_EXPECTS(config.precision != Precision::automatic, "precision is not resolved");
  Layers& known = layers(config);
  plan::StepInput input{
      .layers = {},
      .build = build_options(config, /*here=*/{}, /*training=*/true),
      .mesh = mesh_shape(config.parallel),
      .schedule = pipeline_shape(config, /*training=*/true),
      .global_micro_batches = batch_slices(config).micro_batches(),
      .stages = {},
      .precision = config.precision,
      .zero = static_cast<int>(config.parallel.zero),
      .bucket_elements = bucket_elements(config),
      .separate_ties = separates_ties(config),
      .overlapped_reducer = config.parallel.reducer == ReducerMode::overlapped,
      .optimizer_bytes = known.optimizer_bytes,
      .items_per_sample = traits.items_per_sample(),
      .rows_per_sample = traits.rows_per_sample,
      .sample_bytes = stored_sample_bytes(traits, config.data.float_samples()) /
                      static_cast<double>(spatial_split(config.parallel, 0).rank_count())};
  input.engine.gradient_bytes = static_cast<double>(size_of(reduced_dtype(config)));
  input.engine.owners_sum_gradients =
      reduced_dtype(config) != DType::f32 && device_type(config) == DeviceType::cuda;
  if (device_type(config) == DeviceType::cuda) {
    const CtaLimits limits = cta_limits(config);
    const MessageProcessors left = message_processors(config, input.schedule);
    const bool to_data = left.everywhere() > left.receives * left.link + left.tensor;
    input.ctas = {.link = limits.most_of(CommRole::link),
                  .data = limits.most_of(CommRole::data),
                  .receives = left.receives,
                  .left = std::max(left.everywhere(), reserved_processors(config)),
                  .left_to_data = to_data};
  }
  const auto& given = config.parallel.stage_layers;
  StagePlan& balanced = known.balanced[virtual_stages(input.schedule)];
  if (given.empty() && balanced.first_layer.empty())
    balanced = plan_stages(known.input.layers, input.schedule);
  input.stages = given.empty() ? balanced : plan_stages(known.input.layers, input.schedule, given);
  // Nothing fails from here on.
  input.layers = std::move(known.input.layers);
  input.work = std::move(known.input.work);
  input.kinds = std::move(known.input.kinds);
  return known.input = std::move(input);
}

namespace {

// One pipeline of one stage, one micro-batch: what a layer asks for depends on neither. Data ranks
// that share experts or sequences remain.
Config without_groups(Config config) {
  config.parallel.data =
      std::max<std::int64_t>(config.parallel.expert_data_ranks() / config.parallel.context, 1);
  config.parallel.pipeline = 1;
  config.parallel.chunks = 1;
  config.parallel.stage_layers.clear();
  config.parallel.schedule = ScheduleKind::one_f_one_b;
  config.parallel.zero = config.parallel.zero_group = 0;
  config.train.global_batch = config.train.micro_batch * config.parallel.data;
  config.train.batch_ramp.clear();
  config.train.context_ramp.clear();
  config.device.graphs = GraphMode::off;
  return config;
}

// "backward/blocks.3": in what pass and layer.
struct Place {
  std::string_view pass, layer;

  explicit Place(std::string_view range) : pass(range.substr(0, range.find('/'))) {
    if (pass.size() < range.size()) layer = range.substr(range.rfind('/') + 1);
  }
};

class Collector {
 public:
  explicit Collector(const std::vector<LayerSummary>& layers) : work_(layers.size()) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      number_[layers[i].name] = i;
  }

  // What is done in a pass beside the layers follows the last.
  void add(std::string_view range, const Traffic& work, bool repeated = false) {
    const Place place(range);
    if (place.pass != "forward" && place.pass != "backward") return;
    const auto found = number_.find(place.layer);
    plan::LayerWork& layer = found == number_.end() ? work_.back() : work_[found->second];
    auto& part = place.pass == "forward" ? layer.forward
                 : repeated              ? layer.recompute
                 : work.of_parameters    ? layer.backward_weight
                                         : layer.backward_input;
    part.push_back(work);
  }
  [[nodiscard]] std::vector<plan::LayerWork> take() { return std::move(work_); }

 private:
  std::vector<plan::LayerWork> work_;
  std::map<std::string_view, std::size_t> number_;
};

double update_bytes(const WorkLog& log, double elements, double copy_bytes) {
  constexpr double norm_bytes = 4;  // every gradient is read once
  double bytes = 0;
  for (const WorkOperation& each : log.operations()) {
    if (Place(each.range).pass == "optimizer") bytes += each.traffic.read + each.traffic.written;
  }
  return std::max(0.0, bytes / elements - norm_bytes - copy_bytes);
}

}  // namespace

CountedWork count_work(const Config& config) {
  const Config alone = without_groups(config);
  RankResources resources = dry_resources(alone, 0);
  WorkLog log;
  Engine all(std::move(resources), alone);
  all.begin();
  const Session& session = all.session();
  const auto batches = model_bench::synthetic_batches(*session.device, alone);
  all.training().state->engine.run(0, *batches);
  Collector collector(session.layers);
  for (const WorkOperation& each : log.operations())
    collector.add(each.range, each.traffic, each.repeated);
  for (const WorkItem& each : log.items()) {  // copies and fills outside of operations
    if (each.operation < 0 && each.kind != WorkKind::message)
      collector.add(each.range,
                    {.read = each.kind == WorkKind::copy ? each.bytes : 0, .written = each.bytes});
  }
  double elements = 0;
  for (const Bucket& bucket : session.model->params().layout().buckets())
    elements += bucket.kind == ParamKind::weight ? static_cast<double>(bucket.count) : 0;
  const DType compute = compute_dtype(config.precision);
  const double copy = compute == DType::f32 ? 0 : static_cast<double>(size_of(compute));
  return {.layers = collector.take(),
          .optimizer_bytes = elements > 0 ? update_bytes(log, elements, copy) : 0};
}

}  // namespace trireme
