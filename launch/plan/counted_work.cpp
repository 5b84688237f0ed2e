// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/counted_work.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "launch/bench/model/synthetic_batches.h"
#include "launch/engine/engine.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/device/work_log.h"

namespace trireme {
namespace {

// One stage and one micro-batch: the work of a layer depends on neither.
Config without_groups(Config config) {
  config.parallel.data = 1;
  config.parallel.pipeline = 1;
  config.parallel.chunks = 1;
  config.parallel.stage_layers.clear();
  config.parallel.schedule = ScheduleKind::one_f_one_b;
  config.parallel.zero = config.parallel.zero_group = 0;
  config.train.global_batch = config.train.micro_batch;
  config.train.batch_ramp.clear();
  config.train.context_ramp.clear();
  config.device.graphs = GraphMode::off;
  return config;
}

plan::Rate rate_of(std::string_view name) {
  if (name.starts_with("attention")) return plan::Rate::attention;
  if (name.starts_with("convolution")) return plan::Rate::convolution;
  return name == "linear_fp8" ? plan::Rate::matmul_fp8 : plan::Rate::matmul;
}

// The operations of a layer's pass.
std::vector<plan::OperationWork>& part_of(plan::LayerWork& layer, bool backward,
                                          std::string_view name) {
  if (!backward) return layer.forward;
  if (name.find("forward") != std::string_view::npos) return layer.recompute;
  for (const std::string_view of_parameters :
       {"backward_weight", "column_sums", "embedding_backward", "embedding_partial_backward",
        "add_positions_backward"}) {
    if (name.find(of_parameters) != std::string_view::npos) return layer.backward_weight;
  }
  return layer.backward_input;
}

// "backward/blocks.3": pass and layer.
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

  // Work of a pass outside the layers counts for the last layer.
  void add(std::string_view range, std::string_view name, const plan::OperationWork& work) {
    const Place place(range);
    if (place.pass != "forward" && place.pass != "backward") return;
    const auto found = number_.find(place.layer);
    plan::LayerWork& layer = found == number_.end() ? work_.back() : work_[found->second];
    part_of(layer, place.pass == "backward", name).push_back(work);
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

plan::OperationWork work_of(const std::string& operation, const Traffic& traffic) {
  return {.rate = traffic.flops > 0 ? rate_of(operation) : plan::Rate::memory,
          .bytes = traffic.read + traffic.written,
          .flops = traffic.flops,
          .smallest = traffic.smallest,
          .kernels = traffic.kernels};
}

CountedWork count_work(const Config& config) {
  const Config alone = without_groups(config);
  RankResources resources = dry_resources(alone, 0);
  resources.device = make_dry_device(DeviceType::cuda);
  WorkLog log;
  Engine all(std::move(resources), alone);
  all.begin();
  const Session& session = all.session();
  const auto batches = model_bench::synthetic_batches(*session.device, alone);
  all.training().state->engine.run(0, *batches);
  Collector collector(session.layers);
  for (const WorkOperation& each : log.operations())
    collector.add(each.range, each.name, work_of(each.name, each.traffic));
  for (const WorkItem& each : log.items()) {  // copies and fills outside of operations
    if (each.operation < 0 && each.kind != WorkKind::message)
      collector.add(each.range, name_of(each.kind),
                    {.bytes = each.bytes * (each.kind == WorkKind::copy ? 2 : 1)});
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
