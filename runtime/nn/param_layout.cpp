// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "runtime/nn/param.h"

namespace trireme {
namespace {

// A cache line of floats, never shared by views of adjacent parameters.
constexpr std::int64_t element_alignment = 16;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

ParamId ParamLayout::declare(const ParamSpec& spec) {
  TRIREME_EXPECTS(!done(), "parameter {} declared after allocation", spec.name);
  TRIREME_EXPECTS(!spec.expert || (spec.shard_axis == 0 && spec.shard_units() == 1 &&
                                   spec.tie.empty() && spec.kind != ParamKind::statistic),
                  "parameter {} of experts: axis 0 is split, in one part, without ties", spec.name);
  const auto same = [&](const ParamSpec& other) {
    return other.name == spec.name ||
           (!separate_ties_ && !spec.tie.empty() && other.tie == spec.tie);
  };
  if (const auto found = std::find_if(specs_.begin(), specs_.end(), same); found != specs_.end()) {
    TRIREME_EXPECTS(found->shape == spec.shape && found->kind == spec.kind,
                    "parameter {} declared as {} and as {}", spec.name, found->shape.to_string(),
                    spec.shape.to_string());
    return {static_cast<int>(found - specs_.begin())};
  }
  specs_.push_back(spec);
  entries_.push_back({.unit = std::max(units_ - 1, 0), .chunk = chunks_});
  return {static_cast<int>(specs_.size()) - 1};
}

std::size_t ParamLayout::at(ParamId id) const {
  TRIREME_EXPECTS(id.index >= 0 && id.index < static_cast<int>(specs_.size()),
                  "parameter id {} of {}", id.index, specs_.size());
  return static_cast<std::size_t>(id.index);
}

ParamId ParamLayout::find(std::string_view name) const {
  const auto found = std::ranges::find(specs_, name, &ParamSpec::name);
  return {found == specs_.end() ? -1 : static_cast<int>(found - specs_.begin())};
}

std::int64_t ParamLayout::parameter_count() const {
  return std::accumulate(specs_.begin(), specs_.end(), std::int64_t{0},
                         [](std::int64_t sum, const ParamSpec& spec) {
                           const bool counts = spec.kind == ParamKind::weight && !spec.is_copy();
                           return sum + (counts ? spec.shape.count() : 0);
                         });
}

// Chunks never share a bucket, because their micro-batches are not in step; nor do units whose
// gradients or parameters exist only briefly. Tied parameters have their own buckets, so that their
// copies are sliced alike.
bool ParamLayout::starts_bucket(ParamId id, ParamId before, std::int64_t target) const {
  const Entry &here = entries_[at(id)], &there = entries_[at(before)];
  const ParamSpec &own = specs_[at(id)], &other = specs_[at(before)];
  const auto alone = [&](const ParamSpec& spec) { return separate_ties_ && !spec.tie.empty(); };
  return own.kind != other.kind || here.chunk != there.chunk || alone(own) || alone(other) ||
         own.expert != other.expert || (zero_.stage >= 2 && here.unit != there.unit) ||
         (zero_.vectors_apart && own.matrix != other.matrix) ||
         elements_ - buckets_.back().first >= target;
}

void ParamLayout::fill_buckets(std::int64_t target) {
  ParamId before;
  const auto close = [&] {
    if (buckets_.empty()) return;
    Bucket& bucket = buckets_.back();
    elements_ =
        bucket.first + round_up(elements_ - bucket.first, element_alignment * zero_ranks(bucket));
    bucket.count = elements_ - bucket.first;
    owned_elements_ = bucket.owned + slice_count(bucket);
    kept_elements_ = bucket.kept + kept(bucket).count;
    if (bucket.kind == ParamKind::weight) weight_elements_ = elements_;
    if (bucket.kind == ParamKind::weight && bucket.expert) expert_elements_ += bucket.count;
    if (bucket.kind == ParamKind::frozen) return;
    trained_elements_ = elements_;
    owned_trained_elements_ = owned_elements_;
  };
  for (const ParamId id : order_) {
    Entry& entry = entries_[at(id)];
    const ParamSpec& spec = specs_[at(id)];
    if (before.index < 0 || starts_bucket(id, before, target)) {
      close();
      buckets_.push_back({.first = elements_,
                          .owned = owned_elements_,
                          .kept = kept_elements_,
                          .units = {entry.unit, entry.unit + 1},
                          .kind = spec.kind,
                          .matrices = zero_.vectors_apart && spec.matrix,
                          .expert = spec.expert,
                          .experts = expert_elements_});
    }
    Bucket& bucket = buckets_.back();
    bucket.units.first = std::min(bucket.units.first, entry.unit);
    ++bucket.params;
    entry.bucket = static_cast<int>(buckets_.size()) - 1;
    entry.offset = elements_;
    elements_ += round_up(stored_shape(spec, split(spec)).count(), element_alignment);
    before = id;
  }
  close();
}

void ParamLayout::lay_out(const ZeroOptions& zero, std::int64_t bucket_elements) {
  TRIREME_EXPECTS(!specs_.empty() && !done(), "{} parameters, {} elements laid out", specs_.size(),
                  elements_);
  zero_ = zero;
  for (int i = static_cast<int>(specs_.size()) - 1; i >= 0; --i)
    order_.push_back({i});
  std::ranges::stable_sort(order_, {}, [&](ParamId id) { return spec(id).kind; });
  if (zero.vectors_apart) {
    // Vectors are small: if units may share buckets, those of a chunk do.
    std::ranges::stable_sort(order_, {}, [&](ParamId id) {
      const Entry& entry = entries_[at(id)];
      return std::tuple(spec(id).kind, zero.stage >= 2 ? -entry.unit : -entry.chunk,
                        !spec(id).matrix);
    });
  }
  fill_buckets(bucket_elements);
  find_owned_runs();
}

std::string ParamLayout::describe_bucket(std::size_t bucket) const {
  const auto first = std::ranges::find_if(
      order_, [&](ParamId id) { return bucket_of(id) == static_cast<int>(bucket); });
  const int others = buckets_[bucket].params - 1;
  return fmt::format("bucket {} ({}{})", bucket, spec(*first).name,
                     others > 0 ? fmt::format(" and {} more", others) : "");
}

int ParamLayout::zero_ranks(const Bucket& bucket) const {
  if (zero_.stage == 0 || bucket.kind != ParamKind::weight) return 1;
  return bucket.expert ? std::max(zero_.ranks / splits_.expert_data_ranks(), 1) : zero_.ranks;
}

int ParamLayout::zero_rank(const Bucket& bucket) const {
  return zero_ranks(bucket) == 1 ? 0
         : bucket.expert         ? zero_.rank / splits_.expert_data_ranks()
                                 : zero_.rank;
}

bool ParamLayout::repeats(const ParamSpec& spec) const {
  if (spec.expert) return false;  // expert ranks never hold the same
  const int slices = zero_.stage >= 1 ? zero_.ranks : 1;
  return splits_.expert_data_rank() >= slices ||
         (splits_.tensor.rank > 0 && !is_split(spec, splits_.tensor));
}

std::int64_t ParamLayout::slice_count(const Bucket& bucket) const {
  return bucket.count / zero_ranks(bucket);
}

std::int64_t ParamLayout::slice_first(const Bucket& bucket) const {
  return bucket.first + zero_rank(bucket) * slice_count(bucket);
}

ParamLayout::Range ParamLayout::padded(std::size_t i) const {
  const Bucket& own = bucket(order_[i]);
  const bool last = i + 1 == order_.size() || &bucket(order_[i + 1]) != &own;
  const std::int64_t first = offset(order_[i]);
  return {first, (last ? own.first + own.count : offset(order_[i + 1])) - first};
}

// Cuts each bucket's slice at parameter boundaries and merges adjacent runs that are alike.
void ParamLayout::find_owned_runs() {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ParamSpec& spec = specs_[at(order_[i])];
    const Bucket& own = bucket(order_[i]);
    if (own.kind == ParamKind::frozen) return;  // frozen ones come last
    const Range here = padded(i).within(slice(own));
    if (here.count == 0) continue;
    const bool repeated = repeats(spec);
    const OwnedRun run{.param = order_[i],
                       .bucket = bucket_of(order_[i]),
                       .first = here.first - slice_first(own),
                       .count = here.count,
                       .decay = spec.decay ? spec.rate * spec.decay_share : 0,
                       .kind = spec.kind,
                       .statistic_decay = spec.statistic_decay,
                       .balance_rate = spec.balance_rate,
                       .rate = spec.init.rate * spec.rate,
                       .counted = !spec.is_copy() && !repeated,
                       .counted_in_tensor = !repeated};
    owned_params_.push_back(run);
    const auto alike = [&](const OwnedRun& other) {
      return other.bucket == run.bucket && other.first + other.count == run.first &&
             other.decay == run.decay && other.statistic_decay == run.statistic_decay &&
             other.balance_rate == 0 && run.balance_rate == 0 && other.rate == run.rate &&
             other.counted == run.counted;
    };
    if (!owned_.empty() && alike(owned_.back())) {
      owned_.back().count += run.count;
    } else {
      owned_.push_back(run);
    }
  }
}

std::vector<TensorRun> ParamLayout::tensors_in(const OwnedRun& run) const {
  const ParamSpec& own = spec(run.param);
  const std::vector<ParamMatrix> matrices = matrices_of(own);
  if (matrices.back().tensor == 0) return {{run, 0}};
  const std::int64_t origin = offset(run.param) - slice_first(bucket(run.param));
  std::vector<TensorRun> parts;
  const auto add = [&](std::int64_t stored, std::size_t matrix, std::int64_t, std::int64_t count) {
    const Range here = Range{origin + stored, count}.within({run.first, run.count});
    if (here.count == 0) return;
    parts.push_back({run, matrices[matrix].tensor});
    parts.back().run.first = here.first;
    parts.back().run.count = here.count;
  };
  for_each_matrix_run(own, split(own), matrices, add);
  return parts;
}

ParamLayout::Range ParamLayout::kept(const Bucket& bucket) const {
  if (keeps_slice(bucket)) return {slice_first(bucket), slice_count(bucket)};
  return {bucket.first, bucket.count};
}

ParamLayout::Range ParamLayout::unit_weights(int unit) const {
  Range range;
  for (const Bucket& bucket : buckets_) {
    if (bucket.kind != ParamKind::weight || !bucket.units.contains(unit)) continue;
    if (range.count == 0) range.first = bucket.first;
    range.count = bucket.first + bucket.count - range.first;
  }
  return range;
}

ParamId ParamLayout::first_of_unit(int unit) const {
  ParamId first{.index = -1};
  for (int i = 0; i < static_cast<int>(specs_.size()); ++i) {
    if (entries_[static_cast<std::size_t>(i)].unit != unit) continue;
    if (spec({i}).kind == ParamKind::weight) return {i};
    if (first.index < 0) first = {i};
  }
  return first;
}

std::vector<ParamMatrix> matrices_of(const ParamSpec& spec) {
  // Of experts axis 0 is their number.
  const std::size_t axis = spec.expert && (spec.shape.rank() > 2 || !spec.fused) ? 1 : 0;
  const std::int64_t experts = axis == 1 ? spec.shape[0] : 1, length = spec.shape[axis];
  const bool vectors = spec.shape.rank() == axis + 1;
  const std::int64_t columns = spec.shape.count() / (experts * length);
  const int parts = spec.fused             ? 1
                    : spec.expert          ? spec.expert_parts
                    : spec.shard_axis == 0 ? spec.shard_parts
                                           : 1;
  const int lead = parts == 1 ? 1 : spec.shard_lead;
  std::vector<ParamMatrix> all;
  for (std::int64_t i = 0, first = 0; i < experts * parts; ++i) {
    const std::int64_t rows = length / (parts - 1 + lead) * (i % parts == 0 ? lead : 1);
    all.push_back({static_cast<int>(spec.fused ? 0 : i), first, vectors ? 1 : rows,
                   vectors ? rows : columns});
    first += all.back().count();
  }
  return all;
}

Shape stored_shape(const ParamSpec& spec, const TensorSplit& split) {
  if (!is_split(spec, split)) return spec.shape;
  std::array<std::int64_t, Shape::max_rank> extents{split.local()};
  const std::size_t rank = spec.shape.rank();
  for (std::size_t i = 0; i < rank; ++i)
    extents[i + 1] = spec.shape[i];
  const auto axis = static_cast<std::size_t>(spec.shard_axis);
  TRIREME_EXPECTS(axis < rank && spec.shape[axis] % (split.blocks * spec.shard_units()) == 0,
                  "parameter {} {}: axis {} in {} blocks of {} parts", spec.name,
                  spec.shape.to_string(), axis, split.blocks, spec.shard_units());
  extents[axis + 1] /= split.blocks;
  return Shape(std::span<const std::int64_t>(extents.data(), rank + 1));
}

}  // namespace trireme
