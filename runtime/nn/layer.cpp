// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/layer.h"

#include <algorithm>
#include <cmath>

#include "runtime/nn/step_observer.h"

namespace trireme {

Blueprint::Scope::Scope(Blueprint& blueprint, std::string_view name, bool share_scratch)
    : blueprint_(blueprint),
      prefix_length_(blueprint.prefix_.size()),
      scratch_mark_(blueprint.scratch_.mark()),
      shared_mark_(blueprint.shared_.mark()),
      share_scratch_(share_scratch) {
  if (!name.empty()) blueprint_.prefix_.append(name).append(".");
}

Blueprint::Scope::~Scope() {
  blueprint_.prefix_.resize(prefix_length_);
  if (!share_scratch_) return;
  blueprint_.scratch_.rewind(scratch_mark_);
  blueprint_.shared_.rewind(shared_mark_);
}

ParamId Blueprint::parameter(ParamSpec spec) {
  spec.name = full_name(spec.name);
  return shared_parameter(std::move(spec));
}

ParamId Blueprint::shared_parameter(ParamSpec spec) {
  if (spec.kind == ParamKind::weight) apply_rules(spec);
  return params_.declare(spec);
}

// By the identity: copies of a tied parameter, on any rank, are treated like the original, which
// belongs to the first layer.
void Blueprint::apply_rules(ParamSpec& spec) const {
  const ParamRules& rules = options_.rules;
  const std::string& name = spec.identity();
  if (rules.freezes(name, options_.adapters.rank > 0 && !spec.adapter))
    spec.kind = ParamKind::frozen;
  if (rules.layer_decay != 1)
    spec.rate =
        std::pow(rules.layer_decay, static_cast<float>(spec.is_copy() ? depth_.first : depth_.own));
  const ParamGroup* const group = rules.group_of(name);
  if (group == nullptr) return;
  spec.rate *= group->rate;
  if (!group->decay) return;
  spec.decay = *group->decay > 0;
  spec.decay_share = *group->decay;
}

bool Blueprint::adapts(std::string_view name) const {
  const AdapterOptions& adapters = options_.adapters;
  const std::string_view role = name.substr(name.rfind('.') + 1);
  return adapters.rank > 0 && std::ranges::find(adapters.targets, role) != adapters.targets.end();
}

Activation Blueprint::keep(const Shape& shape, DType dtype) {
  if (recomputed_) return scratch(shape, dtype);
  const Shape held = options_.spatial.held(shape);
  const std::size_t bytes = static_cast<std::size_t>(held.count()) * size_of(dtype);
  return {Activation::Space::kept, kept_.reserve(bytes), dtype, held};
}

Activation Blueprint::scratch(const Shape& shape, DType dtype) {
  const Shape held = options_.spatial.held(shape);
  const std::size_t bytes = static_cast<std::size_t>(held.count()) * size_of(dtype);
  return {Activation::Space::scratch, scratch_.reserve(bytes), dtype, held};
}

Activation Blueprint::shared(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  return {Activation::Space::shared, shared_.reserve(bytes), dtype, shape};
}

Activation Blueprint::until_weight(const Shape& shape) {
  TRIREME_EXPECTS(!(options_.split_backward && recomputed_),
                  "{}: a block that is recomputed as a whole keeps nothing until backward_weight",
                  prefix_);
  return options_.split_backward ? keep(shape) : scratch(shape);
}

Activation Blueprint::workspace(std::size_t bytes, std::size_t after) {
  const std::size_t begin = workspace_.reserve(after);
  const std::size_t offset = workspace_.reserve(bytes);
  workspace_.rewind(begin);
  return {Activation::Space::workspace, offset, DType::u8, Shape{static_cast<std::int64_t>(bytes)}};
}

Activation Blueprint::host(const Shape& shape, DType dtype) {
  const std::size_t begin = host_.mark();
  const std::size_t offset =
      host_.reserve(static_cast<std::size_t>(shape.count()) * size_of(dtype));
  host_.rewind(begin);
  return {Activation::Space::host, offset, dtype, shape};
}

SkipId Blueprint::offer(std::string name, const Shape& shape) {
  const SkipId id{static_cast<std::int32_t>(skip_shapes_.size())};
  skip_shapes_.push_back(shape);
  open_skips_.push_back({{std::move(name), shape}, id});
  return id;
}

OpenSkip Blueprint::take(std::string_view name) {
  const auto found =
      std::ranges::find(open_skips_, name, [](const OpenSkip& open) { return open.skip.name; });
  TRIREME_EXPECTS(found != open_skips_.end(), "{}takes the skip {}, which no earlier layer offers",
                  prefix_, name);
  const OpenSkip taken = *found;
  open_skips_.erase(found);
  return taken;
}

void Blueprint::begin_chunk(std::span<const Skip> received) {
  open_skips_.clear();
  for (const Skip& skip : received)
    offer(skip.name, skip.shape);
}

Activation Blueprint::cache(const Shape& shape) {
  TRIREME_EXPECTS(options_.decode.rows > 0, "{}: got a cache, but the chain does not decode",
                  prefix_);
  return derived(shape, compute());
}

Activation Blueprint::derived(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  return {Activation::Space::cache, cache_.reserve(bytes), dtype, shape};
}

[[gnu::weak]] StepObserver* planted_faults() {
  return nullptr;
}

}  // namespace trireme
