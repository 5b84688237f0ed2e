// SPDX-License-Identifier: Apache-2.0
// A step's calls to the gradient reducer, with gradients that are functions of the micro-batch.
#pragma once

#include <bit>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/config/batch_slices.h"
#include "runtime/parallel/grad_reducer.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"

namespace trireme::test {

struct ReduceCase {
  int stage = 0;
  int micro_batches = 1;  // of each rank
  GradientSum sum = GradientSum::running;
  ReducerMode mode = ReducerMode::overlapped;
  int chunks = 1;
  bool forwards_first = false;  // all of the step's
  DType sent = DType::f32;
  int group = 0;    // ranks of a ZeRO group; 0: all
  int experts = 1;  // data ranks that share experts

  [[nodiscard]] std::string to_string() const {
    return fmt::format(
        "stage {}, {} micro-batches, {}, {}, {} chunks, {}, groups of {}, experts on {}", stage,
        micro_batches, sum == GradientSum::tree ? "tree" : "running",
        mode == ReducerMode::overlapped ? "overlapped" : "inline", chunks, name_of(sent), group,
        experts);
  }
};

// The contribution of micro-batch k of the whole step to an element.
inline float gradient_of(const ParamSpec& spec, std::int64_t element, int k) {
  return sample_value(spec.name, element, static_cast<std::uint64_t>(k) + 1);
}

inline float tree_sum(const ParamSpec& spec, std::int64_t element, int first, int count) {
  if (count == 1) return gradient_of(spec, element, first);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count))) / 2;
  return tree_sum(spec, element, first, left) + tree_sum(spec, element, first + left, count - left);
}

// The sample parameters on this rank, and a step's calls to the reducer in the order in which the
// engine makes them.
class Step {
 public:
  Step(Device& device, const ReducerGroups& groups, Stream& compute, Stream& comm,
       const ReduceCase& what)
      : groups_(groups),
        case_(what),
        slices_(BatchSlices::even(what.micro_batches * ranks(), ranks(),
                                  what.stage >= 2 ? groups.zero.size() : 1)),
        params_({{}, {what.experts, data_rank() % what.experts, what.experts}}) {
    declare_sample(params_, 0, units, what.chunks == 2 ? std::vector{0, 3} : std::vector{0});
    for (int chunk = 0; chunk < what.chunks; ++chunk)
      options_.chunks.push_back({chunk == 0 ? 0 : 3, chunk + 1 == what.chunks ? units : 3});
    options_.mode = what.mode;
    options_.sum = what.sum;
    options_.sent = what.sent;
    options_.micro_batches = what.micro_batches;
    params_.allocate(
        device,
        {.training = true,
         .gradient_levels = GradReducer::levels(options_, what.stage),
         .leaves = GradReducer::leaves(what.sum, what.experts, 1),
         .zero = {.stage = what.stage, .ranks = groups.zero.size(), .rank = groups.zero.rank()},
         .bucket_elements = 150});
    reducer_ = std::make_unique<GradReducer>(device, groups, params_, compute, comm, options_);
  }

  void run() {
    reducer_->begin_step();
    for (int m = 0; m < case_.micro_batches && case_.forwards_first; ++m)
      forward(m);
    for (int m = 0; m < case_.micro_batches; ++m) {
      if (!case_.forwards_first) forward(m);
      backward(m);
    }
    reducer_->finish();
    reducer_->join();
  }

  // Adjacent micro-batches are on one rank, or with stages 2 and 3 on adjacent ranks of a group.
  [[nodiscard]] int global_index(int m) const { return index_on(data_rank(), m); }
  [[nodiscard]] int index_on(int data_rank, int m) const {
    return static_cast<int>(slices_.number(data_rank, m, case_.micro_batches));
  }
  [[nodiscard]] int data_rank() const {
    return groups_.replicas.rank() * groups_.zero.size() + groups_.zero.rank();
  }
  // visit(sum, spec, element) of every gradient that this rank owns.
  template <typename Visit>
  void for_each_sum(Visit&& visit) const {
    for (const Bucket& bucket : params_.layout().buckets()) {
      const float* const sums = params_.gradients().owned(bucket).as<float>();
      for_each_owned(params_.layout(), bucket,
                     [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
                       visit(sums[place], spec, i);
                     });
    }
  }
  [[nodiscard]] std::vector<float> sums() const {
    std::vector<float> all;
    for_each_sum([&](float sum, const ParamSpec&, std::int64_t) { all.push_back(sum); });
    return all;
  }
  [[nodiscard]] ParamStore& params() { return params_; }
  [[nodiscard]] GradReducer& reducer() { return *reducer_; }
  [[nodiscard]] const ReducerOptions& options() const { return options_; }
  [[nodiscard]] int all_micro_batches() const { return case_.micro_batches * ranks(); }
  [[nodiscard]] const ReducerGroups& groups() const { return groups_; }

 private:
  static constexpr int units = 5;

  [[nodiscard]] int ranks() const { return groups_.zero.size() * groups_.replicas.size(); }

  void add_gradient(ParamId id, int m) {
    const ParamSpec& spec = params_.layout().spec(id);
    if (spec.expert) return add_expert_gradients(id, m);
    const Tensor gradient = params_.gradient(id);
    for (std::int64_t i = 0; i < gradient.count(); ++i)
      gradient.as<float>()[i] += gradient_of(spec, i, global_index(m));
  }
  // A layer that received the rows of all data ranks that share experts.
  void add_expert_gradients(ParamId id, int m) {
    const ParamSpec& spec = params_.layout().spec(id);
    const int set = data_rank() / case_.experts * case_.experts;
    for (int sender = 0; sender < case_.experts; ++sender) {
      const Tensor gradient = params_.gradient(id, params_.sources(id) > 1 ? sender : 0);
      const std::int64_t first = params_.layout().split(spec).rank * gradient.count();
      for (std::int64_t i = 0; i < gradient.count(); ++i)
        gradient.as<float>()[i] += gradient_of(spec, first + i, index_on(set + sender, m));
    }
  }
  void forward(int m) {
    for (int chunk = 0; chunk < case_.chunks; ++chunk) {
      reducer_->before_forward(chunk, m);
      for (const ParamId id : params_.layout().order()) {
        if (units_of(chunk).contains(params_.layout().unit_of(id)) &&
            params_.layout().spec(id).kind == ParamKind::statistic)
          add_gradient(id, m);
      }
      reducer_->after_forward(chunk, m);
    }
  }
  void backward(int m) {
    for (int chunk = case_.chunks; chunk-- > 0;) {
      reducer_->before_backward(chunk, m);
      for (int unit = units_of(chunk).last; unit-- > units_of(chunk).first;) {
        reducer_->open_unit(unit);
        for (const ParamId id : params_.layout().order()) {
          if (params_.layout().unit_of(id) != unit) continue;
          if (params_.layout().spec(id).kind == ParamKind::weight) add_gradient(id, m);
          reducer_->ready(id);
        }
      }
      reducer_->after_backward(chunk, m);
    }
  }
  [[nodiscard]] UnitRange units_of(int chunk) const {
    return options_.chunks[static_cast<std::size_t>(chunk)];
  }

  ReducerGroups groups_;
  ReduceCase case_;
  BatchSlices slices_;
  ParamStore params_;
  ReducerOptions options_;
  std::unique_ptr<GradReducer> reducer_;
};

class GradReducerTest : public MpiTest {
 protected:
  [[nodiscard]] Step make_step(const ReduceCase& what) const {
    return {device(), groups_of(what), compute(), comm_stream(), what};
  }
  [[nodiscard]] ReducerGroups groups_of(const ReduceCase& what) const {
    const int shard = what.stage == 0 ? 1 : what.group > 0 ? what.group : size();
    auto& mesh = meshes_[{shard, what.experts}];
    if (!mesh)
      mesh = std::make_unique<ProcessMesh>(world(), MeshShape{1, size(), 1, shard, what.experts});
    return {mesh->zero(), mesh->replicas(), &mesh->expert_zero(), &mesh->expert_replicas()};
  }
  // Each with experts shared by every number of data ranks that the rules allow.
  template <typename Action>
  void for_each_grid(const std::vector<int>& micro_batches, Action&& action) const {
    for_each_group(micro_batches, [&](ReduceCase what) {
      const int shard = what.stage == 0 ? 1 : what.group;
      for (what.experts = 1; what.experts <= size(); ++what.experts) {
        const bool nested = shard % what.experts == 0 || what.experts % shard == 0;
        const bool split = what.stage >= 2 && what.sum == GradientSum::tree && shard < what.experts;
        if (size() % what.experts != 0 || 8 % what.experts != 0 || !nested || split) continue;
        SCOPED_TRACE(what.to_string());
        action(what);
      }
    });
  }
  // Each with ZeRO groups of every size.
  template <typename Action>
  void for_each_group(const std::vector<int>& micro_batches, Action&& action) const {
    for_each_case(micro_batches, [&](ReduceCase what) {
      for (what.group = 1; what.group <= (what.stage > 0 ? size() : 1); ++what.group)
        if (size() % what.group == 0) action(what);
    });
  }
  template <typename Action>
  static void for_each_case(const std::vector<int>& micro_batches, Action&& action) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int m : micro_batches) {
        for (const int chunks : {1, 2}) {
          for (const auto sum : {GradientSum::running, GradientSum::tree}) {
            for (const auto mode : {ReducerMode::overlapped, ReducerMode::inline_after_backward}) {
              const ReduceCase what{stage, m, sum, mode, chunks};
              SCOPED_TRACE(what.to_string());
              action(what);
            }
          }
        }
      }
    }
  }

 private:
  mutable std::map<std::pair<int, int>, std::unique_ptr<ProcessMesh>>
      meshes_;  // by ranks of a ZeRO group, and those that share experts
};

}  // namespace trireme::test
