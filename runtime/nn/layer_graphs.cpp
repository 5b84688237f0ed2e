// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/layer_graphs.h"

#include <utility>

#include "runtime/base/log.h"

namespace trireme {
namespace {

// Delays reports, because what they enqueue is on another stream and must happen at every replay.
class ReadyList final : public GradientSink {
 public:
  explicit ReadyList(std::vector<ParamId>& ids) : ids_(ids) {}
  void ready(ParamId id) override { ids_.push_back(id); }

 private:
  std::vector<ParamId>& ids_;
};

}  // namespace

LayerGraphs::Key LayerGraphs::key_of(const Context& context, int unit, LayerPass pass) {
  const std::byte* weights = nullptr;
  const std::byte* gradients = nullptr;
  // All parameters of a unit are moved together.
  if (const ParamId first = context.params.layout().first_of_unit(unit); first.index >= 0) {
    weights = context.params.compute(first).data;
    if (pass != LayerPass::forward && context.params.trains(first))
      gradients = context.params.gradient(first).data;
  }
  const bool makes_of_weights =
      pass == LayerPass::forward && context.weights_changed && context.cache->bytes() > 0;
  return {unit,
          pass,
          makes_of_weights,
          context.stream.policy().reserved_processors,
          context.kept_shift,
          context.batch.inputs.data,
          context.batch.document_bounds.data,
          context.rng.data,
          weights,
          gradients};
}

void LayerGraphs::run(const Context& context, int unit, LayerPass pass,
                      const std::function<void(const Context&)>& work) {
  if (impossible_) return work(context);
  auto [found, fresh] = recordings_.try_emplace(key_of(context, unit, pass));
  if (fresh) return work(context);
  Recording& recording = found->second;
  if (recording.graph == nullptr && !record(recording, context, work)) return work(context);
  recording.graph->launch(context.stream);
  for (const ParamId id : recording.ready)
    context.ready(id);
}

bool LayerGraphs::record(Recording& recording, const Context& context,
                         const std::function<void(const Context&)>& work) {
  ReadyList list(recording.ready);
  Context recorded = context;
  recorded.gradients = &list;
  try {
    recording.graph = device_.capture(context.stream, [&] { work(recorded); });
    if (!std::exchange(recorded_, true))
      log::get("train").info("layers are replayed as CUDA graphs from here on");
  } catch (const Error& error) {
    if (error.code() != ExitCode::config) throw;
    impossible_ = true;
    log::get("train").warn("layers run without graphs from here on: {}", error.what());
  }
  return !impossible_;
}

}  // namespace trireme
