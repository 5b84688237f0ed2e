// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/grad_reducer.h"

#include <bit>
#include <cmath>
#include <map>

#include "runtime/comm/process_mesh.h"
#include "runtime/config/batch_slices.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"
#include "tests/support/slow_communicator.h"

namespace trireme {
namespace {

struct ReduceCase {
  int stage = 0;
  int micro_batches = 1;  // of each rank
  GradientSum sum = GradientSum::running;
  ReducerMode mode = ReducerMode::overlapped;
  int chunks = 1;
  bool forwards_first = false;  // all of the step's
  DType sent = DType::f32;
  int group = 0;  // ranks of a ZeRO group; 0: all

  [[nodiscard]] std::string to_string() const {
    return fmt::format("stage {}, {} micro-batches, {}, {}, {} chunks, {}, groups of {}", stage,
                       micro_batches, sum == GradientSum::tree ? "tree" : "running",
                       mode == ReducerMode::overlapped ? "overlapped" : "inline", chunks,
                       name_of(sent), group);
  }
};

// The contribution of micro-batch k of the whole step to an element.
float gradient_of(const ParamSpec& spec, std::int64_t element, int k) {
  return test::sample_value(spec.name, element, static_cast<std::uint64_t>(k) + 1);
}

float tree_sum(const ParamSpec& spec, std::int64_t element, int first, int count) {
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
                                  what.stage >= 2 ? groups.zero.size() : 1)) {
    test::declare_sample(params_, 0, units, what.chunks == 2 ? std::vector{0, 3} : std::vector{0});
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
  [[nodiscard]] int global_index(int m) const {
    const int rank = groups_.replicas.rank() * groups_.zero.size() + groups_.zero.rank();
    return static_cast<int>(slices_.number(rank, m, case_.micro_batches));
  }
  // visit(sum, spec, element) of every gradient that this rank owns.
  template <typename Visit>
  void for_each_sum(Visit&& visit) const {
    for (const Bucket& bucket : params_.layout().buckets()) {
      const float* const sums = params_.gradients().owned(bucket).as<float>();
      test::for_each_owned(params_.layout(), bucket,
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
    const Tensor gradient = params_.gradient(id);
    for (std::int64_t i = 0; i < gradient.count(); ++i)
      gradient.as<float>()[i] += gradient_of(spec, i, global_index(m));
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

class GradReducerTest : public test::MpiTest {
 protected:
  [[nodiscard]] Step make_step(const ReduceCase& what) const {
    return {device(), groups_of(what), compute(), comm_stream(), what};
  }
  [[nodiscard]] ReducerGroups groups_of(const ReduceCase& what) const {
    const int shard = what.stage == 0 ? 1 : what.group > 0 ? what.group : size();
    auto& mesh = meshes_[shard];
    if (!mesh) mesh = std::make_unique<ProcessMesh>(world(), MeshShape{1, size(), 1, shard});
    return {mesh->zero(), mesh->replicas()};
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
  mutable std::map<int, std::unique_ptr<ProcessMesh>> meshes_;  // by ranks of a group
};

TEST_F(GradReducerTest, SumsOverMicroBatchesAndRanks) {
  for_each_group({1, 2, 3, 5}, [&](const ReduceCase& what) {
    Step step = make_step(what);

    for (int repetition = 0; repetition < 2; ++repetition) {
      step.run();

      int checked = 0;
      step.for_each_sum([&](float sum, const ParamSpec& spec, std::int64_t i) {
        double expected = 0;
        for (int k = 0; k < step.all_micro_batches(); ++k)
          expected += static_cast<double>(gradient_of(spec, i, k));
        ASSERT_NEAR(sum, expected, 1e-5) << spec.name << " " << i;
        ++checked;
      });
      EXPECT_GT(checked, 0);
    }
  });
}

// For layouts that align with the tree: with runs of micro-batches per rank their number must be a
// power of two, or there is one rank; with interleaved micro-batches the number of a group's ranks
// must be, and that of its micro-batches unless it is the only group.
TEST_F(GradReducerTest, GivesTheBitsOfOneTreeOverAllMicroBatchesOfAllRanks) {
  int compared = 0;
  for_each_group({1, 2, 3, 4, 5, 8}, [&](const ReduceCase& what) {
    const bool one_group = what.stage == 0 || what.group == size();
    const int inner = what.stage < 2 ? what.micro_batches
                      : one_group    ? size()
                                     : what.group * what.micro_batches;
    const auto fits = [](int count) { return std::has_single_bit(static_cast<unsigned>(count)); };
    const bool aligned =
        (fits(inner) || (what.stage < 2 && size() == 1)) && (one_group || fits(what.group));
    if (what.sum != GradientSum::tree || !aligned) return;
    Step step = make_step(what);

    step.run();

    step.for_each_sum([&](float sum, const ParamSpec& spec, std::int64_t i) {
      ASSERT_EQ(sum, tree_sum(spec, i, 0, step.all_micro_batches())) << spec.name << " " << i;
      ++compared;
    });
  });
  EXPECT_GT(compared, 0);
}

TEST_F(GradReducerTest, GivesTheSameBitsOverlappedAndInline) {
  for_each_group({1, 3}, [&](const ReduceCase& what) {
    if (what.mode == ReducerMode::overlapped) return;
    ReduceCase other = what;
    other.mode = ReducerMode::overlapped;
    Step after = make_step(what), meanwhile = make_step(other);

    after.run();
    meanwhile.run();

    EXPECT_EQ(after.sums(), meanwhile.sums());
  });
}

TEST_F(GradReducerTest, WaitsForASlowNetworkBeforeItReusesMemory) {
  for_each_group({4}, [&](const ReduceCase& what) {
    const ReducerGroups groups = groups_of(what);
    test::SlowCommunicator zero(groups.zero), replicas(groups.replicas);
    Step fast = make_step(what);
    for (const bool forwards_first : {false, true}) {
      ReduceCase slowly = what;
      slowly.forwards_first = forwards_first;
      Step delayed(device(), {zero, replicas}, compute(), comm_stream(), slowly);
      for (int repetition = 0; repetition < 2; ++repetition) {
        fast.run();
        delayed.run();

        EXPECT_EQ(delayed.sums(), fast.sums());
      }
    }
  });
}

// W elements of weights and S of statistics, padding included; M micro-batches per rank:
//   stage 0      all_reduce W + S
//   stage 1      reduce_scatter W,    all_reduce S
//   stages 2, 3  reduce_scatter M W,  all_reduce S (tree: M S, for the tree joins ranks first)
TEST_F(GradReducerTest, MovesOnlyTheBytesOfItsZeroStage) {
  if (size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  for_each_case({1, 3}, [&](const ReduceCase& what) {
    Step step = make_step(what);
    const Communicator& group = what.stage == 0 ? step.groups().replicas : step.groups().zero;
    const auto moved = [&](const CommStats& before, Verb verb) {
      return (group.stats()[verb].bytes - before[verb].bytes) / sizeof(float);
    };
    const CommStats before = group.stats();

    step.run();

    const auto w = static_cast<std::uint64_t>(step.params().layout().weight_elements());
    const auto s = static_cast<std::uint64_t>(step.params().layout().elements()) - w;
    const auto m = static_cast<std::uint64_t>(what.micro_batches);
    const std::uint64_t of_statistics =
        what.stage >= 2 && what.sum == GradientSum::tree ? m * s : s;
    ASSERT_GT(s, 0U);
    EXPECT_EQ(moved(before, Verb::all_reduce), what.stage == 0 ? w + s : of_statistics);
    EXPECT_EQ(moved(before, Verb::reduce_scatter), what.stage == 0   ? 0
                                                   : what.stage == 1 ? w
                                                                     : m * w);
    for (const Verb other :
         {Verb::all_gather, Verb::all_to_all, Verb::broadcast, Verb::send, Verb::recv})
      EXPECT_EQ(moved(before, other), 0U) << name_of(other);
  });
}

// Groups of n ranks: inside one as above; between them W / n and S once, however many
// micro-batches.
TEST_F(GradReducerTest, MovesASliceOfTheWeightsOnceAStepBetweenGroups) {
  for_each_group({1, 3}, [&](const ReduceCase& what) {
    if (what.stage == 0 || what.group == 1 || what.group == size()) return;
    Step step = make_step(what);
    const Communicator &zero = step.groups().zero, &replicas = step.groups().replicas;
    const CommStats inside = zero.stats(), between = replicas.stats();

    step.run();

    const auto w = static_cast<std::uint64_t>(step.params().layout().weight_elements());
    const auto s = static_cast<std::uint64_t>(step.params().layout().elements()) - w;
    const auto n = static_cast<std::uint64_t>(what.group);
    const auto times = static_cast<std::uint64_t>(what.stage >= 2 ? what.micro_batches : 1);
    EXPECT_EQ(zero.stats()[Verb::reduce_scatter].bytes - inside[Verb::reduce_scatter].bytes,
              times * w * sizeof(float));
    EXPECT_EQ(replicas.stats()[Verb::all_reduce].bytes - between[Verb::all_reduce].bytes,
              (w / n + s) * sizeof(float));
    EXPECT_EQ(replicas.stats()[Verb::reduce_scatter].calls, between[Verb::reduce_scatter].calls);
  });
}

// Each rank rounds its own, each group its sum, and the sum of all is rounded: three times.
TEST_F(GradReducerTest, RoundsOnceMorePerLevelWhatGroupsSendIn16Bits) {
  for_each_group({1}, [&](ReduceCase what) {
    if (what.stage == 0 || what.group == 1 || what.group == size()) return;
    what.sent = DType::bf16;
    Step step = make_step(what);

    step.run();

    step.for_each_sum([&](float sum, const ParamSpec& spec, std::int64_t i) {
      if (spec.kind != ParamKind::weight) return;
      double exact = 0, sizes = 0;
      for (int k = 0; k < step.all_micro_batches(); ++k) {
        exact += static_cast<double>(gradient_of(spec, i, k));
        sizes += std::abs(static_cast<double>(gradient_of(spec, i, k)));
      }
      ASSERT_EQ(sum, static_cast<float>(bf16(sum))) << "is as it was sent";
      ASSERT_NEAR(sum, exact, 3.1 * sizes / 256) << spec.name << " " << i;
    });
  });
}

// One micro-batch per rank: rounded values, summed by the tree over ranks in f32, and rounded again
// if all ranks need the sum. One rank sends nothing, so it rounds nothing.
template <typename T>
float rounded_sum(const ParamSpec& spec, std::int64_t element, int first, int ranks) {
  if (ranks == 1) return static_cast<float>(T(gradient_of(spec, element, first)));
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2;
  return rounded_sum<T>(spec, element, first, left) +
         rounded_sum<T>(spec, element, first + left, ranks - left);
}

template <typename T>
float sum_of_sent(const ParamSpec& spec, std::int64_t element, int ranks, int stage) {
  if (ranks == 1 || spec.kind != ParamKind::weight) return tree_sum(spec, element, 0, ranks);
  const float sum = rounded_sum<T>(spec, element, 0, ranks);
  return stage == 0 ? static_cast<float>(T(sum)) : sum;
}

TEST_F(GradReducerTest, SumsGradientsSentIn16BitsInF32) {
  for_each_case({1}, [&](const ReduceCase& each) {
    for (const DType sent : {DType::bf16, DType::f16}) {
      ReduceCase what = each;
      what.sent = sent;
      Step step = make_step(what);
      for (int repetition = 0; repetition < 2; ++repetition) {
        step.run();

        step.for_each_sum([&](float sum, const ParamSpec& spec, std::int64_t i) {
          const float expected = sent == DType::bf16
                                     ? sum_of_sent<bf16>(spec, i, size(), what.stage)
                                     : sum_of_sent<f16>(spec, i, size(), what.stage);
          ASSERT_EQ(sum, expected) << name_of(sent) << " " << spec.name << " " << i;
        });
      }
    }
  });
}

TEST_F(GradReducerTest, GivesTheSameBitsOverlappedInlineAndOverASlowNetworkIn16Bits) {
  for_each_group({3}, [&](const ReduceCase& each) {
    if (each.mode == ReducerMode::overlapped) return;
    const ReducerGroups groups = groups_of(each);
    test::SlowCommunicator zero(groups.zero), replicas(groups.replicas);
    ReduceCase what = each, other = each;
    what.sent = other.sent = DType::bf16;
    other.mode = ReducerMode::overlapped;
    Step after = make_step(what), meanwhile = make_step(other);
    Step delayed(device(), {zero, replicas}, compute(), comm_stream(), other);

    after.run();
    meanwhile.run();
    delayed.run();

    EXPECT_EQ(after.sums(), meanwhile.sums());
    EXPECT_EQ(delayed.sums(), meanwhile.sums());
  });
}

// As above with half of the bytes of weights: stage 0 exchanges slices and gathers their sums, the
// others exchange slices. Padding: at most an element per rank and bucket; stage 0 has none.
TEST_F(GradReducerTest, SendsHalfOfTheBytesIn16Bits) {
  if (size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  for_each_case({1, 3}, [&](const ReduceCase& each) {
    ReduceCase what = each;
    what.sent = DType::bf16;
    Step step = make_step(what);
    const Communicator& group = what.stage == 0 ? step.groups().replicas : step.groups().zero;
    const CommStats before = group.stats();
    const auto bytes = [&](Verb verb) { return group.stats()[verb].bytes - before[verb].bytes; };

    step.run();

    const ParamLayout& layout = step.params().layout();
    const auto weights = static_cast<std::uint64_t>(layout.weight_elements());
    const auto statistics = static_cast<std::uint64_t>(layout.elements()) - weights;
    const std::uint64_t padding = what.stage == 0 ? layout.buckets().size() * (size() - 1U) : 0;
    const auto times = static_cast<std::uint64_t>(what.stage >= 2 ? what.micro_batches : 1);
    EXPECT_GE(bytes(Verb::all_to_all), 2 * times * weights);
    EXPECT_LE(bytes(Verb::all_to_all), 2 * times * (weights + padding));
    EXPECT_EQ(bytes(Verb::all_gather), what.stage == 0 ? bytes(Verb::all_to_all) : 0);
    EXPECT_EQ(bytes(Verb::reduce_scatter), 0U);
    EXPECT_EQ(bytes(Verb::all_reduce),
              4 * statistics * (what.sum == GradientSum::tree ? times : 1));
  });
}

TEST_F(GradReducerTest, NamesAParameterThatReportsTwice) {
  Step step = make_step({});
  step.reducer().begin_step();
  step.reducer().before_backward(0, 0);
  const ParamId id = step.params().layout().find("a.bias");
  step.reducer().ready(id);

  test::expect_error(
      ExitCode::internal,
      [&] {
        for (int i = 0; i < 4; ++i)
          step.reducer().ready(id);
      },
      "a.bias", "reported twice");
  comm_stream().synchronize();
}

TEST_F(GradReducerTest, RefusesToFinishWhileAGradientIsMissing) {
  Step step = make_step({});
  step.reducer().begin_step();
  step.reducer().before_backward(0, 0);
  for (const ParamId id : step.params().layout().order().subspan(1))
    step.reducer().ready(id);

  test::expect_error(
      ExitCode::internal, [&] { step.reducer().finish(); }, "1 of", "bucket 0");
  comm_stream().synchronize();
}

TEST_F(GradReducerTest, RefusesAStoreWithTooFewPartialSums) {
  Step step = make_step({.micro_batches = 2});  // which needs one micro-batch
  ReducerOptions tree = step.options();
  tree.sum = GradientSum::tree;

  test::expect_error(
      ExitCode::internal,
      [&] { GradReducer(device(), step.groups(), step.params(), compute(), comm_stream(), tree); },
      "1 levels of partial sums, need 2");
}

}  // namespace
}  // namespace trireme
