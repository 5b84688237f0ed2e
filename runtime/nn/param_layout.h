// SPDX-License-Identifier: Apache-2.0
// Position of each parameter in the arenas: a pure function of the declarations, equal on all ranks
// of a data-parallel group except for slice ownership.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/nn/param.h"

namespace trireme {

// Layers [first, last) in chain order, numbered among those that this rank holds.
struct UnitRange {
  int first = 0;
  int last = 0;
  [[nodiscard]] bool contains(int unit) const { return unit >= first && unit < last; }
};

struct ZeroOptions {
  int stage = 0;
  int ranks = 1;  // data ranks with other slices of dense parameters
  int rank = 0;
  // Separate buckets for matrices and vectors, so that matrices can be gathered in the compute
  // dtype.
  bool vectors_apart = false;
};

// The unit of reduction and gathering; never splits a parameter. With ZeRO the weights of a bucket
// are padded to a multiple of the ranks; statistics and frozen weights are never sliced.
struct Bucket {
  std::int64_t first = 0;  // element range of the arenas
  std::int64_t count = 0;
  std::int64_t owned = 0;  // start of this rank's slice in arenas of slices
  std::int64_t kept = 0;   // start of ParamLayout::kept() in arenas of that form
  int params = 0;          // number of parameters that complete it
  UnitRange units{};
  ParamKind kind = ParamKind::weight;
  bool matrices = false;     // holds only matrices (vectors_apart)
  bool expert = false;       // holds only parameters of experts (ParamSpec::expert)
  std::int64_t experts = 0;  // start in arenas of weights of experts alone
};

// A run of adjacent elements in this rank's slice of a bucket that the optimizer treats alike.
struct OwnedRun {
  ParamId param{};  // the first parameter of the run
  int bucket = 0;
  std::int64_t first = 0;  // from the beginning of the slice
  std::int64_t count = 0;
  float decay = 0;  // share of the weight decay
  ParamKind kind = ParamKind::weight;
  float statistic_decay = 0;
  float balance_rate = 0;
  float rate = 1;                 // share of the learning rate, times Init::rate
  bool counted = true;            // in the gradient norm: once over all ranks and tied copies
  bool counted_in_tensor = true;  // in sums over the ranks that hold parts of this parameter
};

// The part of a run that lies in one of its parameter's logical tensors (ParamMatrix::tensor).
struct TensorRun {
  OwnedRun run{};
  int tensor = 0;
};

class ParamLayout {
 public:
  ParamLayout(const ParamSplits& splits, bool separate_ties)
      : splits_(splits), separate_ties_(separate_ties) {}

  void open_chunk() { ++chunks_; }
  void open_unit() { ++units_; }
  ParamId declare(const ParamSpec& spec);
  void lay_out(const ZeroOptions& zero, std::int64_t bucket_elements);
  [[nodiscard]] bool done() const { return elements_ > 0; }

  [[nodiscard]] const ParamSplits& splits() const { return splits_; }
  [[nodiscard]] const TensorSplit& split(const ParamSpec& spec) const { return splits_.of(spec); }
  [[nodiscard]] bool separates_ties() const { return separate_ties_; }
  [[nodiscard]] const ZeroOptions& zero() const { return zero_; }
  // The ranks with other slices of a bucket, and this one's number. Data ranks that share experts
  // out among them slice an expert's parameters with fewer others, or alone.
  [[nodiscard]] int zero_ranks(const Bucket& bucket) const;
  [[nodiscard]] int zero_rank(const Bucket& bucket) const;
  // Whether another rank, in the tensor group or among data ranks that share experts, holds the
  // same part of the parameter as this rank and comes first. Replicas of the ranks that share
  // parameters and slices out among them do not count.
  [[nodiscard]] bool repeats(const ParamSpec& spec) const;
  [[nodiscard]] std::span<const ParamSpec> specs() const { return specs_; }
  [[nodiscard]] const ParamSpec& spec(ParamId id) const { return specs_[at(id)]; }
  [[nodiscard]] std::int64_t offset(ParamId id) const { return entries_[at(id)].offset; }
  [[nodiscard]] int bucket_of(ParamId id) const { return entries_[at(id)].bucket; }
  [[nodiscard]] const Bucket& bucket(ParamId id) const {
    return buckets_[static_cast<std::size_t>(bucket_of(id))];
  }
  [[nodiscard]] int unit_of(ParamId id) const { return entries_[at(id)].unit; }
  // Preferring trained weights; index -1 if the unit has no parameters.
  [[nodiscard]] ParamId first_of_unit(int unit) const;
  [[nodiscard]] int unit_count() const { return units_; }
  // The parameter of that name; index -1 if there is none.
  [[nodiscard]] ParamId find(std::string_view name) const;

  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
  [[nodiscard]] std::int64_t owned_elements() const { return owned_elements_; }
  [[nodiscard]] std::int64_t kept_elements() const { return kept_elements_; }
  // Weights of experts.
  [[nodiscard]] std::int64_t expert_elements() const { return expert_elements_; }
  // Elements with gradients; they precede the frozen ones.
  [[nodiscard]] std::int64_t trained_elements() const { return trained_elements_; }
  [[nodiscard]] std::int64_t owned_trained_elements() const { return owned_trained_elements_; }
  [[nodiscard]] bool trains(ParamId id) const { return spec(id).kind != ParamKind::frozen; }
  // Element count of all whole weights, without copies, frozen weights and padding.
  [[nodiscard]] std::int64_t parameter_count() const;
  // Arena order: reverse declaration order; weights, then statistics, then frozen weights. With
  // vectors_apart the vectors follow the matrices of their unit, or of their chunk, whose units
  // then share buckets.
  [[nodiscard]] std::span<const ParamId> order() const { return order_; }
  [[nodiscard]] std::span<const Bucket> buckets() const { return buckets_; }
  // Runs of trained elements: adjacent ones merged, and one run per parameter.
  [[nodiscard]] std::span<const OwnedRun> owned_runs() const { return owned_; }
  [[nodiscard]] std::span<const OwnedRun> owned_params() const { return owned_params_; }
  // Of one of owned_params(); without the padding if there are several tensors.
  [[nodiscard]] std::vector<TensorRun> tensors_in(const OwnedRun& run) const;
  // For messages: "bucket 3 (blocks.1.mlp.contract.weight and 11 more)".
  [[nodiscard]] std::string describe_bucket(std::size_t bucket) const;
  // Element count of this rank's slice of a bucket, and its start in the whole arenas.
  [[nodiscard]] std::int64_t slice_count(const Bucket& bucket) const;
  [[nodiscard]] std::int64_t slice_first(const Bucket& bucket) const;
  // Elements [first, first + count) of the whole arenas.
  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
    [[nodiscard]] Range within(const Range& other) const {
      const std::int64_t from = std::max(first, other.first);
      return {from,
              std::max(std::min(first + count, other.first + other.count) - from, std::int64_t{0})};
    }
  };
  // This rank's slice of a bucket.
  [[nodiscard]] Range slice(const Bucket& bucket) const {
    return {slice_first(bucket), slice_count(bucket)};
  }
  // A parameter as stored here, without the padding behind it; and the i-th of order() with it.
  [[nodiscard]] Range stored(ParamId id) const {
    return {offset(id), stored_shape(spec(id), split(spec(id))).count()};
  }
  [[nodiscard]] Range padded(std::size_t i) const;
  // Visits the runs of a parameter's elements in `range`, such as slice() or kept(), that are
  // adjacent here and in the whole tensor: `visit(place, logical, count)`, with the first element's
  // place in the range and in the tensor.
  template <typename Visit>
  void for_each_owned_run(ParamId id, const Range& range, Visit&& visit) const {
    for_each_run(spec(id), split(spec(id)),
                 [&](std::int64_t place, std::int64_t logical, std::int64_t count) {
                   const std::int64_t first = offset(id) + place;
                   const Range here = Range{first, count}.within(range);
                   if (here.count > 0)
                     visit(here.first - range.first, logical + here.first - first, here.count);
                 });
  }
  // The same for this rank's blocks of a parameter (TensorSplit), or all of it as one block:
  // `visit(place, block, first, count)`, elements [first, first + count) of the block.
  template <typename Visit>
  void for_each_owned_block(ParamId id, const Range& range, Visit&& visit) const {
    const TensorSplit& cut = split(spec(id));
    const bool blocked = is_split(spec(id), cut);
    const int blocks = blocked ? cut.local() : 1;
    Range block = stored(id);
    block.count /= blocks;
    for (int b = 0; b < blocks; ++b, block.first += block.count) {
      const Range here = block.within(range);
      if (here.count > 0)
        visit(here.first - range.first, std::int64_t{blocked ? cut.first() + b : 0},
              here.first - block.first, here.count);
    }
  }
  // Whether a rank keeps only its slice of a bucket's fp32 parameters; it receives the other slices
  // rounded, or for one use.
  [[nodiscard]] bool keeps_slice(const Bucket& bucket) const {
    return bucket.kind == ParamKind::weight && (zero_.stage >= 3 || bucket.matrices);
  }
  // That slice, or the whole bucket.
  [[nodiscard]] Range kept(const Bucket& bucket) const;
  [[nodiscard]] Range unit_weights(int unit) const;
  [[nodiscard]] std::size_t at(ParamId id) const;

 private:
  struct Entry {
    int unit = 0, chunk = 0, bucket = 0;
    std::int64_t offset = 0;
  };
  [[nodiscard]] bool starts_bucket(ParamId id, ParamId before, std::int64_t target) const;
  void fill_buckets(std::int64_t target);
  void find_owned_runs();

  ParamSplits splits_;
  bool separate_ties_;
  ZeroOptions zero_{};
  int chunks_ = 0, units_ = 0;
  std::vector<ParamSpec> specs_;
  std::vector<Entry> entries_;
  std::vector<ParamId> order_;
  std::vector<Bucket> buckets_;
  std::vector<OwnedRun> owned_, owned_params_;
  std::int64_t elements_ = 0, weight_elements_ = 0, owned_elements_ = 0, kept_elements_ = 0;
  std::int64_t expert_elements_ = 0;
  std::int64_t trained_elements_ = 0, owned_trained_elements_ = 0;
};

}  // namespace trireme
