// SPDX-License-Identifier: Apache-2.0
// Facts about a chain's layers, declared one by one without memory.
#include <algorithm>
#include <utility>

#include "runtime/device/work_log.h"
#include "runtime/nn/model.h"

namespace trireme {
namespace {

// Declares one layer after another, each alone, and hands skips on between them.
class Walk {
 public:
  Walk(DeviceType device, const BuildOptions& options) : device_(device), options_(options) {}

  // `use` may look at the layer and its declarations.
  template <typename Use>
  void step(const ChainLayer& layer, Use&& use) {
    ParamStore params({options_.tensor, options_.experts.split}, /*separate_ties=*/true);
    Blueprint blueprint(params, device_, options_);
    blueprint.begin_chunk(skips_);
    const std::size_t received = skips_.size();
    const auto made = layer.declare(blueprint, shape_);
    shape_ = made->output_shape();
    skips_.clear();
    for (const OpenSkip& open : blueprint.open_skips())
      skips_.push_back(open.skip);
    std::size_t offered = 0;
    for (const Shape& shape : blueprint.skip_shapes().subspan(received))
      offered += static_cast<std::size_t>(held(shape)) * size_of(options_.compute);
    use(*made, blueprint, params, offered);
  }
  // Behind the last layer.
  void end() const {
    TRIREME_EXPECTS(skips_.empty(), "no layer takes the skip {}", skips_.front().name);
  }
  [[nodiscard]] const std::vector<Skip>& skips() const { return skips_; }
  // Elements of the last layer's output on each rank.
  [[nodiscard]] std::int64_t held() const { return shape_.rank() == 0 ? 0 : held(shape_); }
  [[nodiscard]] std::int64_t handed_on() const {
    if (skips_.empty()) return held();
    std::int64_t sum = padded_in_message(options_.spatial.held(shape_));
    for (const Skip& skip : skips_)
      sum += padded_in_message(options_.spatial.held(skip.shape));
    return sum;
  }

 private:
  [[nodiscard]] std::int64_t held(const Shape& shape) const {
    return options_.spatial.held(shape).count();
  }

  DeviceType device_;
  const BuildOptions& options_;
  Shape shape_;
  std::vector<Skip> skips_;
};

}  // namespace

std::unique_ptr<Layer> ChainLayer::declare(Blueprint& blueprint, const Shape& input,
                                           const LayerDepth& depth) const {
  const BuildOptions& options = blueprint.options();
  blueprint.begin_layer(input, options.training && options.recompute == Recompute::full && block,
                        depth);
  auto made = make(blueprint);
  blueprint.begin_layer({}, false);
  return made;
}

LayerDepth depth_of(const Chain& chain, std::size_t i) {
  const auto blocks_in = [&](std::size_t count) {
    return static_cast<int>(std::count_if(chain.begin(),
                                          chain.begin() + static_cast<std::ptrdiff_t>(count),
                                          [](const ChainLayer& layer) { return layer.block; }));
  };
  const int all = blocks_in(chain.size()), upto = blocks_in(i + 1);
  const bool behind = upto == all && !chain[i].block;
  return {.own = behind ? 0 : all + 1 - upto, .first = all + 1};
}

std::int64_t padded_in_message(const Shape& held) {
  return static_cast<std::int64_t>(
      align_up(static_cast<std::size_t>(held.count()), arena_alignment));
}

std::vector<LayerSummary> summarize(const Chain& chain, DeviceType device,
                                    const BuildOptions& options) {
  std::vector<LayerSummary> summaries;
  Walk walk(device, options);
  for (const ChainLayer& layer : chain) {
    walk.step(layer, [&](const Layer& made, const Blueprint& blueprint, const ParamStore& params,
                         std::size_t offered) {
      const auto specs = params.layout().specs();
      summaries.push_back({.name = made.name(),
                           .output = made.output_shape(),
                           .held = walk.held(),
                           .handed_on = walk.handed_on(),
                           .params = {specs.begin(), specs.end()},
                           .splits_backward = made.splits_backward(),
                           .kept_bytes = blueprint.kept_layout().peak_bytes() + offered,
                           .skips = walk.skips(),
                           .traffic = blueprint.traffic()});
    });
  }
  walk.end();
  return summaries;
}

std::vector<double> forward_flops(const Chain& chain, const BuildOptions& options, Device& device,
                                  const Batch& batch) {
  const auto layers = summarize(chain, device.type(), options);
  const auto stream = device.make_stream(StreamKind::compute);
  const Buffer rng(device, 2 * sizeof(std::uint64_t), MemoryKind::device);
  std::vector<double> flops;
  for (int i = 0; i < static_cast<int>(chain.size()); ++i) {
    const ChunkSpan span{.first = i, .last = i + 1};
    const Handover input = i == 0 ? Handover{} : layers[static_cast<std::size_t>(i) - 1].handover();
    Model alone(device, chain, options, {&span, 1}, {&input, 1}, {}, /*separate_ties=*/true);
    Context context = alone.context(*stream, batch, options.training);
    context.rng = rng.view(DType::u64, Shape{2});
    const WorkLog log;
    alone.forward(context);
    flops.push_back(0);
    for (const WorkOperation& each : log.operations())
      flops.back() += each.traffic.flops;
  }
  return flops;
}

ModelLimits limits_of(const Chain& chain) {
  ModelLimits limits;
  limits.layers = static_cast<std::int64_t>(chain.size());
  std::vector<Extent> of_ends;
  const BuildOptions options;
  Walk walk(DeviceType::cpu, options);
  for (const ChainLayer& layer : chain) {
    limits.blocks += layer.block ? 1 : 0;
    walk.step(layer,
              [&](const Layer& made, const Blueprint&, const ParamStore& params, std::size_t) {
                for (const ParamSpec& spec : params.layout().specs()) {
                  limits.ties = limits.ties || spec.is_copy();
                  if (spec.kind == ParamKind::weight && !spec.is_copy())
                    limits.parameters.push_back(spec.name);
                }
                std::vector<Extent> known = std::exchange(limits.tensor, {});
                made.add_limits(limits);
                for (Extent& extent : std::exchange(limits.tensor, std::move(known))) {
                  auto& all = layer.block ? limits.tensor : of_ends;
                  if (std::ranges::find(all, extent) == all.end()) all.push_back(std::move(extent));
                }
                limits.splits_backward = limits.splits_backward && made.splits_backward();
              });
  }
  std::ranges::move(of_ends, std::back_inserter(limits.tensor));
  return limits;
}

}  // namespace trireme
