// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/philox.h"
#include "runtime/device/arena.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/init.h"

namespace trireme {
namespace {

// Every parameter starts on a cache line of the arena, so vector kernels see aligned rows.
constexpr std::int64_t element_alignment = arena_alignment / sizeof(float);

bool alike(const ParamSegment& a, const ParamSpec& b) {
  return a.kind == b.kind && a.decay == b.decay &&
         (b.kind == ParamKind::weight || a.statistic_decay == b.statistic_decay);
}

}  // namespace

ParamId ParamStore::declare(const ParamSpec& spec) {
  TRIREME_EXPECTS(elements_ == 0, "parameter {} declared after allocation", spec.name);
  const auto same_name = [&](const ParamSpec& other) { return other.name == spec.name; };
  if (const auto found = std::find_if(specs_.begin(), specs_.end(), same_name);
      found != specs_.end()) {
    TRIREME_EXPECTS(*found == spec, "parameter {} declared as {} and as {}", spec.name,
                    found->shape.to_string(), spec.shape.to_string());
    return {static_cast<int>(found - specs_.begin())};
  }
  specs_.push_back(spec);
  return {static_cast<int>(specs_.size()) - 1};
}

void ParamStore::lay_out() {
  order_.clear();
  for (int i = static_cast<int>(specs_.size()) - 1; i >= 0; --i)
    order_.push_back({i});
  std::stable_partition(order_.begin(), order_.end(),
                        [&](ParamId id) { return specs_[at(id)].kind == ParamKind::weight; });
  offsets_.resize(specs_.size());
  for (const ParamId id : order_) {
    const ParamSpec& spec = specs_[at(id)];
    const auto padded = static_cast<std::int64_t>(align_up(
        static_cast<std::size_t>(spec.shape.count()), static_cast<std::size_t>(element_alignment)));
    offsets_[at(id)] = elements_;
    if (segments_.empty() || !alike(segments_.back(), spec)) {
      segments_.push_back({elements_, 0, spec.decay, spec.kind, spec.statistic_decay});
    }
    segments_.back().count += padded;
    elements_ += padded;
    if (spec.kind == ParamKind::weight) weight_elements_ = elements_;
  }
}

void ParamStore::allocate(Device& device, DType compute, bool training) {
  TRIREME_EXPECTS(!specs_.empty() && elements_ == 0, "{} parameters, {} elements laid out",
                  specs_.size(), elements_);
  lay_out();
  compute_dtype_ = compute;
  const auto elements = static_cast<std::size_t>(elements_);
  masters_ = Buffer(device, elements * sizeof(float), MemoryKind::device);
  if (training) gradients_ = Buffer(device, elements * sizeof(float), MemoryKind::device);
  if (compute != DType::f32)
    compute_ = Buffer(device, elements * size_of(compute), MemoryKind::device);
}

void ParamStore::initialize(Stream& stream, std::uint64_t seed) {
  ops::fill_constant(stream, masters(), 0.0F);  // padding included
  for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
    const ParamSpec& spec = specs_[static_cast<std::size_t>(i)];
    const Tensor values = master({i});
    const std::uint64_t id = stable_id(spec.name.data(), spec.name.size());
    switch (spec.init.kind) {
      case Init::Kind::constant:
        ops::fill_constant(stream, values, spec.init.a);
        break;
      case Init::Kind::normal:
        ops::fill_normal(stream, values, seed, id, 0, spec.init.a, spec.init.b);
        break;
      case Init::Kind::uniform:
        ops::fill_uniform(stream, values, seed, id, 0, spec.init.a, spec.init.b);
        break;
      case Init::Kind::sinusoid:
        ops::fill_sinusoid(stream, values, spec.init.a);
        break;
    }
  }
  refresh_compute(stream);
}

void ParamStore::refresh_compute(Stream& stream) {
  if (compute_dtype_ != DType::f32) ops::cast(stream, compute_copies(), masters());
}

Tensor ParamStore::compute(ParamId id) const {
  const bool copied = compute_dtype_ != DType::f32 && specs_[at(id)].matrix;
  return copied ? view(compute_, id, compute_dtype_) : master(id);
}

Tensor ParamStore::compute_copies() const {
  return compute_dtype_ == DType::f32 ? Tensor{} : flat(compute_, compute_dtype_);
}

std::int64_t ParamStore::parameter_count() const {
  return std::accumulate(specs_.begin(), specs_.end(), std::int64_t{0},
                         [](std::int64_t sum, const ParamSpec& spec) {
                           return sum + (spec.kind == ParamKind::weight ? spec.shape.count() : 0);
                         });
}

std::size_t ParamStore::at(ParamId id) const {
  TRIREME_EXPECTS(id.index >= 0 && id.index < static_cast<int>(specs_.size()),
                  "parameter id {} of {}", id.index, specs_.size());
  return static_cast<std::size_t>(id.index);
}

Tensor ParamStore::view(const Buffer& arena, ParamId id, DType dtype) const {
  const std::size_t index = at(id);
  TRIREME_EXPECTS(arena.data() != nullptr, "parameter {} has no such arena yet",
                  specs_[index].name);
  return {arena.data() + static_cast<std::size_t>(offsets_[index]) * size_of(dtype), dtype,
          specs_[index].shape};
}

Tensor ParamStore::flat(const Buffer& arena, DType dtype) const {
  TRIREME_EXPECTS(arena.data() != nullptr, "the arena is not allocated");
  return arena.view(dtype, Shape{elements_});
}

}  // namespace trireme
