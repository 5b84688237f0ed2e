// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/grad_reducer.h"

#include <bit>
#include <cmath>

#include "tests/parallel/reduce_step.h"
#include "tests/support/expect_error.h"
#include "tests/support/slow_communicator.h"

namespace trireme {
namespace {

using test::gradient_of;
using test::GradReducerTest;
using test::ReduceCase;
using test::Step;
using test::tree_sum;

TEST_F(GradReducerTest, SumsOverMicroBatchesAndRanks) {
  for_each_grid({1, 2, 3, 5}, [&](const ReduceCase& what) {
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
  for_each_grid({1, 2, 3, 4, 5, 8}, [&](const ReduceCase& what) {
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
  for_each_grid({1, 3}, [&](const ReduceCase& what) {
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
  for_each_grid({4}, [&](const ReduceCase& what) {
    const ReducerGroups groups = groups_of(what);
    test::SlowCommunicator zero(groups.zero), replicas(groups.replicas);
    std::unique_ptr<Communicator> expert_zero, expert_replicas;
    if (what.experts > 1) {
      expert_zero = std::make_unique<test::SlowCommunicator>(*groups.expert_zero);
      expert_replicas = std::make_unique<test::SlowCommunicator>(*groups.expert_replicas);
    }
    Step fast = make_step(what);
    for (const bool forwards_first : {false, true}) {
      ReduceCase slowly = what;
      slowly.forwards_first = forwards_first;
      Step delayed(device(), {zero, replicas, expert_zero.get(), expert_replicas.get()}, compute(),
                   comm_stream(), slowly);
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

TEST_F(GradReducerTest, SendsExpertsIn16BitsOverTheirOwnGroups) {
  for_each_grid({1, 3}, [&](ReduceCase what) {
    if (what.experts == 1 || what.sum == GradientSum::tree) return;
    what.sent = DType::bf16;
    Step step = make_step(what);

    for (int repetition = 0; repetition < 2; ++repetition) {
      step.run();

      step.for_each_sum([&](float sum, const ParamSpec& spec, std::int64_t i) {
        double exact = 0, sizes = 0;
        for (int k = 0; k < step.all_micro_batches(); ++k) {
          exact += static_cast<double>(gradient_of(spec, i, k));
          sizes += std::abs(static_cast<double>(gradient_of(spec, i, k)));
        }
        ASSERT_NEAR(sum, exact, 3.1 * sizes / 256) << spec.name << " " << i;
      });
    }
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

// Of a bucket with other parameters that have not reported yet.
TEST_F(GradReducerTest, NamesAParameterThatReportsTwice) {
  for (const GradientSum sum : {GradientSum::running, GradientSum::tree}) {
    Step step = make_step({.sum = sum});
    step.reducer().begin_step();
    step.reducer().before_backward(0, 0);
    const ParamLayout& layout = step.params().layout();
    const ParamId id = layout.find("a.bias");
    ASSERT_GT(layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))].params, 1);
    step.reducer().ready(id);

    test::expect_error(
        ExitCode::internal, [&] { step.reducer().ready(id); }, "a.bias", "reported twice");
    comm_stream().synchronize();
  }
}

TEST_F(GradReducerTest, NamesAParameterThatNeverReportsInAnyMicroBatch) {
  for (const bool at_the_end : {false, true}) {
    Step step = make_step({.micro_batches = 2});
    step.reducer().begin_step();
    step.reducer().before_backward(0, 0);
    const ParamLayout& layout = step.params().layout();
    for (const ParamId id : layout.order())
      if (layout.spec(id).name != "a.bias") step.reducer().ready(id);

    test::expect_error(
        ExitCode::internal,
        [&] { at_the_end ? step.reducer().finish() : step.reducer().after_backward(0, 0); },
        "a.bias", "never reported");
    comm_stream().synchronize();
  }
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
