// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of single layers: a pass of a layer over the same memory is enqueued the first time,
// recorded the second time and then replayed, which saves the host the launches.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/nn/layer.h"

namespace trireme {

enum class LayerPass : std::uint8_t { forward, backward, backward_weight };

class LayerGraphs {
 public:
  explicit LayerGraphs(Device& device) : device_(device) {}

  // Runs `work` with a context like `context`: eagerly, recorded or replayed. Parameters report to
  // context.gradients after the whole pass. If a pass cannot be recorded, logs the reason and runs
  // every later pass without a graph eagerly.
  void run(const Context& context, int unit, LayerPass pass,
           const std::function<void(const Context&)>& work);

 private:
  // Everything that a graph holds by value and that differs between passes of a training run.
  using Key = std::tuple<int, LayerPass, bool, int, std::ptrdiff_t, const std::byte*,
                         const std::byte*, const std::byte*, const std::byte*, const std::byte*>;
  struct Recording {
    std::unique_ptr<Graph> graph;
    std::vector<ParamId> ready;
  };
  // Returns false if the pass cannot be recorded.
  bool record(Recording& recording, const Context& context,
              const std::function<void(const Context&)>& work);
  [[nodiscard]] static Key key_of(const Context& context, int unit, LayerPass pass);

  Device& device_;
  std::map<Key, Recording> recordings_;
  bool impossible_ = false;
  bool recorded_ = false;  // a pass was recorded, and logged
};

}  // namespace trireme
