// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet.h"

#include "models/resnet/resnet_block.h"
#include "models/resnet/resnet_head.h"
#include "models/resnet/stem.h"

namespace trireme {
namespace {

// A layer inside its scope.
template <typename L, typename... Args>
ChainLayer in_scope(const std::string& scope_name, const Args&... args) {
  return {.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer(scope_name);
    return std::make_unique<L>(blueprint, args...);
  }};
}

}  // namespace

Chain resnet_chain(const ResNetOptions& options, const ops::AugmentOptions& augment) {
  Chain chain{in_scope<ResNetStem>("stem", options, augment)};
  for (std::size_t stage = 0; stage < options.stages.size(); ++stage) {
    for (std::int64_t i = 0; i < options.stages[stage]; ++i) {
      const std::string name = fmt::format("stages.{}.{}", stage, i);
      chain.push_back(in_scope<ResNetBlock>(
          name, name,
          ResNetBlockOptions{.bottleneck = options.block == ResNetBlockKind::bottleneck,
                             .width = options.width << stage,
                             .stride = stage > 0 && i == 0 ? 2 : 1}));
      chain.back().block = true;
    }
  }
  chain.push_back(in_scope<ResNetHead>("", options.classes, augment.mix));
  return chain;
}

}  // namespace trireme
