// SPDX-License-Identifier: Apache-2.0
// Where each parameter lies in the arenas: a pure function of what was declared, equal on all ranks
// of a data-parallel group but for which slice is whose.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/nn/param.h"

namespace trireme {

// Layers [first, last) as a rank counts those that it holds, in chain order.
struct UnitRange {
  int first = 0;
  int last = 0;
  [[nodiscard]] bool contains(int unit) const { return unit >= first && unit < last; }
};

struct ZeroOptions {
  int stage = 0;
  int ranks = 1;  // of the data-parallel group
  int rank = 0;
  // Matrices and vectors in buckets of their own, so that the former can be gathered in the compute
  // dtype.
  bool vectors_apart = false;
};

// The unit of reduction and gathering. Its borders are parameter borders. With ZeRO the weights of
// a bucket are padded to a multiple of the ranks; statistics and frozen weights are never sliced.
struct Bucket {
  std::int64_t first = 0;  // element range of the arenas
  std::int64_t count = 0;
  std::int64_t owned = 0;  // where the own slice begins in arenas of own slices
  std::int64_t kept = 0;   // where ParamLayout::kept begins in arenas of that
  int params = 0;          // how many parameters must report before it is complete
  UnitRange units{};
  ParamKind kind = ParamKind::weight;
  bool matrices = false;  // of matrices alone, where vectors are apart
};

// A run of neighbouring elements that the optimizer treats alike, within the own slice of a bucket.
struct OwnedRun {
  ParamId param{};  // the first of the run
  int bucket = 0;
  std::int64_t first = 0;  // from the beginning of the slice
  std::int64_t count = 0;
  bool decay = false;
  ParamKind kind = ParamKind::weight;
  float statistic_decay = 0;
  float rate = 1;                 // Init::rate
  bool counted = true;            // in the gradient norm: once among all ranks and tied copies
  bool counted_in_tensor = true;  // in sums over the ranks that hold parts of this parameter
};

class ParamLayout {
 public:
  ParamLayout(TensorSplit split, bool separate_ties)
      : split_(split), separate_ties_(separate_ties) {}

  void open_chunk() { ++chunks_; }
  void open_unit() { ++units_; }
  ParamId declare(const ParamSpec& spec);
  void lay_out(const ZeroOptions& zero, std::int64_t bucket_elements);
  [[nodiscard]] bool done() const { return elements_ > 0; }

  [[nodiscard]] const TensorSplit& split() const { return split_; }
  [[nodiscard]] bool separates_ties() const { return separate_ties_; }
  [[nodiscard]] const ZeroOptions& zero() const { return zero_; }
  [[nodiscard]] std::span<const ParamSpec> specs() const { return specs_; }
  [[nodiscard]] const ParamSpec& spec(ParamId id) const { return specs_[at(id)]; }
  [[nodiscard]] std::int64_t offset(ParamId id) const { return entries_[at(id)].offset; }
  [[nodiscard]] int bucket_of(ParamId id) const { return entries_[at(id)].bucket; }
  [[nodiscard]] int unit_of(ParamId id) const { return entries_[at(id)].unit; }
  // Index -1 where a unit has no parameters.
  [[nodiscard]] ParamId first_of_unit(int unit) const;
  [[nodiscard]] int unit_count() const { return units_; }
  // The parameter of that name, index -1 where there is none.
  [[nodiscard]] ParamId find(std::string_view name) const;

  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
  [[nodiscard]] std::int64_t owned_elements() const { return owned_elements_; }
  [[nodiscard]] std::int64_t kept_elements() const { return kept_elements_; }
  // Of those that have gradients: all in front of the frozen ones.
  [[nodiscard]] std::int64_t trained_elements() const { return trained_elements_; }
  [[nodiscard]] std::int64_t owned_trained_elements() const { return owned_trained_elements_; }
  [[nodiscard]] bool trains(ParamId id) const { return spec(id).kind != ParamKind::frozen; }
  // Whole element counts of all weights but copies and frozen ones, padding not included.
  [[nodiscard]] std::int64_t parameter_count() const;
  // Arena order: reverse of declaration, weights before statistics before frozen weights; where
  // vectors are apart, those of a unit behind its matrices, or of a chunk, whose units then share
  // buckets.
  [[nodiscard]] std::span<const ParamId> order() const { return order_; }
  [[nodiscard]] std::span<const Bucket> buckets() const { return buckets_; }
  // Runs of neighbours joined, and one for each parameter; of what has gradients.
  [[nodiscard]] std::span<const OwnedRun> owned_runs() const { return owned_; }
  [[nodiscard]] std::span<const OwnedRun> owned_params() const { return owned_params_; }
  // "bucket 3 (blocks.1.mlp.contract.weight and 11 more)", for messages.
  [[nodiscard]] std::string describe_bucket(std::size_t bucket) const;
  // Elements of the own slice of a bucket, and where it begins in the whole arenas.
  [[nodiscard]] std::int64_t slice_count(const Bucket& bucket) const;
  [[nodiscard]] std::int64_t slice_first(const Bucket& bucket) const;
  // Elements [first, first + count) of the whole arenas.
  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // Whether a rank keeps of a bucket's fp32 parameters the own slice alone: others it gets rounded,
  // or for one use.
  [[nodiscard]] bool keeps_slice(const Bucket& bucket) const {
    return bucket.kind == ParamKind::weight && (zero_.stage >= 3 || bucket.matrices);
  }
  // That slice, or the whole bucket.
  [[nodiscard]] Range kept(const Bucket& bucket) const;
  // The weights of a unit.
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

  TensorSplit split_;
  bool separate_ties_;
  ZeroOptions zero_{};
  int chunks_ = 0, units_ = 0;
  std::vector<ParamSpec> specs_;
  std::vector<Entry> entries_;
  std::vector<ParamId> order_;
  std::vector<Bucket> buckets_;
  std::vector<OwnedRun> owned_, owned_params_;
  std::int64_t elements_ = 0, weight_elements_ = 0, owned_elements_ = 0, kept_elements_ = 0;
  std::int64_t trained_elements_ = 0, owned_trained_elements_ = 0;
};

}  // namespace trireme
