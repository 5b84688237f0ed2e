// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet.h"

#include "models/resnet/block.h"
#include "models/resnet/head.h"
#include "models/resnet/stem.h"

namespace trireme {
namespace {

template <typename L, typename... Args>
Shape append(Blueprint& blueprint, Model::Declaration& declaration, const std::string& scope_name,
             Args&&... args) {
  const auto scope = blueprint.layer(scope_name);
  declaration.layers.push_back(std::make_unique<L>(blueprint, std::forward<Args>(args)...));
  return declaration.layers.back()->output_shape();
}

}  // namespace

Model::Declaration declare_resnet(Blueprint& blueprint, const ResNetOptions& options) {
  Model::Declaration declaration;
  Shape shape = append<ResNetStem>(blueprint, declaration, "stem", options);
  for (std::size_t stage = 0; stage < options.stages.size(); ++stage) {
    for (std::int64_t i = 0; i < options.stages[stage]; ++i) {
      const std::string name = fmt::format("stages.{}.{}", stage, i);
      shape = append<ResNetBlock>(blueprint, declaration, name, name, shape,
                                  ResNetBlockOptions{.bottleneck = options.bottleneck,
                                                     .width = options.width << stage,
                                                     .stride = stage > 0 && i == 0 ? 2 : 1});
    }
  }
  const auto scope = blueprint.layer("");
  auto head = std::make_unique<ResNetHead>(blueprint, shape, options.classes);
  declaration.head = head->info();
  declaration.layers.push_back(std::move(head));
  return declaration;
}

}  // namespace trireme
