// SPDX-License-Identifier: Apache-2.0
#include "data/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "data/loader/batch_plan.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::expect_error;

bool is_bijection(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation order(size, seed, epoch);
  std::vector<bool> seen(size, false);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t to = order(i);
    if (to >= size || seen[to]) return false;
    seen[to] = true;
  }
  return true;
}

TEST(BlockOrder, VisitsEverySampleOnceForEverySizeAndBlock) {
  for (const std::uint64_t block : {2U, 3U, 8U, 50U, 400U}) {
    for (std::uint64_t size = 1; size < 350; size += 7) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < size; ++i)
        seen.insert(block_order(size, block, 5, size % 3, i));
      ASSERT_EQ(seen.size(), size) << block;
      ASSERT_EQ(*seen.rbegin(), size - 1) << block;
    }
  }
}

TEST(BlockOrder, KeepsBlocksTogetherAndDiffersBetweenEpochs) {
  constexpr std::uint64_t size = 10'007, block = 10, together = 16;
  std::vector<std::uint64_t> orders[2];
  for (const std::uint64_t epoch : {0U, 1U}) {
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> met;  // first, last position
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t sample = block_order(size, block, 5, epoch, i);
      orders[epoch].push_back(sample);
      const auto [at, fresh] = met.try_emplace(sample / block, i, i);
      if (!fresh) at->second.second = i;
    }
    // A block lies in one window, or because of the short block in two.
    for (const auto& [number, range] : met)
      EXPECT_LT(range.second / (block * together) - range.first / (block * together), 2U) << number;
  }
  EXPECT_NE(orders[0], orders[1]);
  // Neighbours in a window come from many blocks.
  std::set<std::uint64_t> blocks;
  for (std::size_t i = 0; i < 40; ++i)
    blocks.insert(orders[0][i] / block);
  EXPECT_GT(blocks.size(), 10U);
}

TEST(Permutation, IsABijectionOfEverySizeUpTo1100) {
  for (std::uint64_t size = 1; size <= 1100; ++size)
    ASSERT_TRUE(is_bijection(size, 1234, 0)) << size;
}

TEST(Permutation, IsABijectionAroundPowersOfTwoAndOfOddLargeSizes) {
  for (const std::uint64_t size : {4095U, 4096U, 4097U, 32767U, 32768U, 32769U, 60000U, 100003U}) {
    EXPECT_TRUE(is_bijection(size, 0xfeedbeefcafeULL, 7)) << size;
  }
}

TEST(Permutation, IsABijectionForEverySeedAndEpoch) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
      ASSERT_TRUE(is_bijection(97, seed << 33, epoch)) << seed;
  }
}

TEST(Permutation, DiffersBetweenSeedsAndEpochs) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t key = 0; key < 64; ++key) {
    const Permutation order(1000, key / 8, key % 8);
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 16; ++i)
      values.push_back(order(i));
    orders.insert(values);
  }
  EXPECT_EQ(orders.size(), 64U);
}

TEST(Permutation, SpreadsEveryPositionOverTheWholeRange) {
  constexpr std::uint64_t size = 10, epochs = 4000;
  std::vector<std::vector<int>> counts(size, std::vector<int>(size, 0));
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Permutation order(size, 99, epoch);
    for (std::uint64_t i = 0; i < size; ++i)
      ++counts[i][order(i)];
  }
  // Expected 400 each with a deviation of 19; 120 is over six deviations.
  for (const auto& row : counts) {
    for (const int count : row)
      EXPECT_NEAR(count, 400, 120);
  }
}

TEST(Permutation, AnswersForHugeSizesWithoutATable) {
  const Permutation order(std::uint64_t{1} << 62, 5, 0);
  EXPECT_LT(order(123456789012345ULL), std::uint64_t{1} << 62);
  EXPECT_NE(order(0), order(1));
}

// Checkpoints resume in a run's order, so it must never change between versions.
TEST(Permutation, KeepsItsPublishedOrder) {
  const Permutation order(1000, 1234, 0);
  std::vector<std::uint64_t> first;
  for (std::uint64_t i = 0; i < 6; ++i)
    first.push_back(order(i));
  EXPECT_EQ(first, (std::vector<std::uint64_t>{493, 924, 848, 450, 247, 325}));
}

Sampler make_sampler(std::int64_t samples, std::int64_t batch, LastBatch last,
                     bool shuffle = true) {
  return Sampler({.samples = samples,
                  .global_batch = batch,
                  .seed = 42,
                  .shuffle = shuffle,
                  .last_batch = last});
}

std::vector<std::int64_t> epoch_samples(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    for (std::int64_t slot = 0; slot < sampler.global_batch(); ++slot) {
      const SampleId id = sampler.at(epoch * sampler.steps_per_epoch() + step, slot);
      EXPECT_EQ(id.epoch, epoch);
      samples.push_back(id.sample);
    }
  }
  return samples;
}

TEST(Sampler, DropsWhatDoesNotFillABatch) {
  const Sampler sampler = make_sampler(103, 10, LastBatch::drop);

  const std::vector<std::int64_t> samples = epoch_samples(sampler, 3);

  EXPECT_EQ(sampler.steps_per_epoch(), 10);
  EXPECT_EQ(samples.size(), 100U);
  EXPECT_EQ(std::set<std::int64_t>(samples.begin(), samples.end()).size(), 100U);
}

TEST(Sampler, PadsWithTheFirstSamplesOfTheSameEpoch) {
  const Sampler sampler = make_sampler(103, 10, LastBatch::pad);

  const std::vector<std::int64_t> samples = epoch_samples(sampler, 2);

  EXPECT_EQ(sampler.steps_per_epoch(), 11);
  EXPECT_EQ(std::set<std::int64_t>(samples.begin(), samples.end()).size(), 103U);
  for (std::size_t i = 103; i < 110; ++i)
    EXPECT_EQ(samples[i], samples[i - 103]);
}

TEST(Sampler, PadsADataSetSmallerThanABatchAsOftenAsNeeded) {
  const Sampler sampler = make_sampler(3, 10, LastBatch::pad);

  const std::vector<std::int64_t> samples = epoch_samples(sampler, 0);

  ASSERT_EQ(samples.size(), 10U);
  for (std::size_t i = 3; i < 10; ++i)
    EXPECT_EQ(samples[i], samples[i % 3]);
}

TEST(Sampler, IsTheIdentityWhenShufflingIsOff) {
  const Sampler sampler = make_sampler(103, 10, LastBatch::drop, false);

  EXPECT_EQ(sampler.at(0, 0), (SampleId{0, 0}));
  EXPECT_EQ(sampler.at(9, 9), (SampleId{0, 99}));
  EXPECT_EQ(sampler.at(10, 0), (SampleId{1, 0}));
}

Sampler ramped(std::int64_t samples, LastBatch last) {
  const std::vector<BatchRamp::Point> points = {{0, 4}, {7, 12}, {20, 24}};
  return Sampler({.samples = samples,
                  .global_batch = 24,
                  .seed = 42,
                  .last_batch = last,
                  .ramp = BatchRamp(points, RampForm::linear)});
}

TEST(Sampler, SeesEverySampleOnceInAnEpochWhileBatchesGrow) {
  for (const LastBatch last : {LastBatch::drop, LastBatch::pad}) {
    const Sampler sampler = ramped(101, last);
    std::map<std::int64_t, std::vector<std::int64_t>> epochs;
    std::int64_t before = 0;
    for (std::int64_t step = 0; step < 60; ++step) {
      const std::int64_t size = sampler.ramp().size_at(step);
      const std::int64_t epoch = sampler.at(step, 0).epoch;
      EXPECT_GE(epoch, before);
      before = epoch;
      for (std::int64_t slot = 0; slot < size; ++slot) {
        const SampleId id = sampler.at(step, slot);
        EXPECT_EQ(id.epoch, epoch) << "a batch is of one epoch";
        epochs[epoch].push_back(id.sample);
      }
    }
    ASSERT_GT(epochs.size(), 5U);
    epochs.erase(std::prev(epochs.end()));  // not over
    for (const auto& [epoch, samples] : epochs) {
      const std::set<std::int64_t> once(samples.begin(), samples.end());
      if (last == LastBatch::drop) {
        EXPECT_EQ(once.size(), samples.size()) << "epoch " << epoch;
        EXPECT_GT(once.size(), 101U - 24U);
      } else {
        EXPECT_EQ(once.size(), 101U) << "epoch " << epoch;
        EXPECT_LT(samples.size(), 101U + 24U);
      }
    }
  }
}

TEST(BatchPlan, GivesTheStepsOfARampToAnyNumberOfRanks) {
  const Sampler sampler = ramped(1000, LastBatch::drop);
  for (const bool strided : {false, true}) {
    for (const std::int64_t ranks : {1, 2, 4}) {
      const std::int64_t first = 5;
      std::vector<std::int64_t> next(static_cast<std::size_t>(ranks), 0);
      for (std::int64_t step = first; step < 30; ++step) {
        const std::int64_t local = sampler.ramp().size_at(step) / ranks;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const BatchPlan plan =
              BatchPlan::training(sampler, 1, rank, ranks, first, strided ? ranks : 1);
          for (std::int64_t i = 0; i < local; ++i) {
            const std::int64_t slot = strided ? i * ranks + rank : rank * local + i;
            EXPECT_EQ(plan.at(next[static_cast<std::size_t>(rank)]++, 0), sampler.at(step, slot))
                << ranks << " ranks, step " << step;
          }
        }
      }
    }
  }
}

TEST(Sampler, OrdersEveryEpochDifferently) {
  const Sampler sampler = make_sampler(100, 10, LastBatch::drop);
  EXPECT_NE(epoch_samples(sampler, 0), epoch_samples(sampler, 1));
}

TEST(Sampler, RefusesADataSetSmallerThanABatchWithNumbersAndFix) {
  expect_error(
      ExitCode::data, [] { static_cast<void>(make_sampler(31, 32, LastBatch::drop)); },
      "31 samples", "train.global_batch = 32", "data.last_batch: pad");
}

TEST(BatchPlan, GivesTheSameStepToAnyNumberOfRanks) {
  const Sampler sampler = make_sampler(1000, 48, LastBatch::drop);
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    std::vector<SampleId> rows;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = BatchPlan::training(sampler, 4, rank, ranks, 5);
      ASSERT_EQ(plan.count(), 12 / ranks);
      for (std::int64_t batch = 0; batch < plan.count(); ++batch) {
        for (std::int64_t row = 0; row < 4; ++row)
          rows.push_back(plan.at(batch, row));
      }
    }
    ASSERT_EQ(rows.size(), 48U);
    for (std::int64_t slot = 0; slot < 48; ++slot) {
      EXPECT_EQ(rows[static_cast<std::size_t>(slot)], sampler.at(5, slot))
          << ranks << " ranks, slot " << slot;
    }
  }
}

TEST(BatchPlan, GivesTheSameStepsToRanksThatHoldDifferentNumbersOfMicroBatches) {
  const Sampler sampler = make_sampler(1000, 48, LastBatch::drop);
  for (const std::int64_t ranks : {5, 7, 8, 11}) {
    for (const BatchSlices& slices : {BatchSlices::even(12, ranks), BatchSlices::tree(12, ranks)}) {
      for (std::int64_t step = 0; step < 3; ++step) {
        std::int64_t slot = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const BatchPlan plan = BatchPlan::training(sampler, 4, slices, rank, 5);
          ASSERT_EQ(plan.count(), slices.of(rank).count);
          for (std::int64_t i = 0; i < plan.count(); ++i) {
            const std::int64_t batch = step * plan.count() + i;
            ASSERT_EQ(plan.step_of(batch), 5 + step);
            for (std::int64_t row = 0; row < 4; ++row)
              ASSERT_EQ(plan.at(batch, row), sampler.at(5 + step, slot++)) << slices.to_string();
          }
        }
        ASSERT_EQ(slot, 48);
      }
    }
  }
}

TEST(BatchPlan, DealsMicroBatchesOutInTurn) {
  const Sampler sampler = make_sampler(1000, 48, LastBatch::drop);
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = BatchPlan::training(sampler, 4, rank, ranks, 5, /*turns=*/ranks);
      ASSERT_EQ(plan.count(), 12 / ranks);
      for (std::int64_t batch = 0; batch < 2 * plan.count(); ++batch) {
        const std::int64_t step = batch / plan.count(), i = batch % plan.count();
        for (std::int64_t row = 0; row < 4; ++row)
          EXPECT_EQ(plan.at(batch, row), sampler.at(5 + step, (i * ranks + rank) * 4 + row))
              << ranks << " ranks, rank " << rank << ", batch " << batch;
      }
    }
  }
}

TEST(BatchPlan, GivesARunOfMicroBatchesToEachGroupOfRanksThatTakeTurns) {
  const Sampler sampler = make_sampler(1000, 12, LastBatch::drop);
  const std::vector<std::vector<std::int64_t>> expected = {
      {0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const BatchPlan plan = BatchPlan::training(sampler, 1, rank, 4, 5, /*turns=*/2);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(
          plan.at(3 + i, 0),
          sampler.at(6, expected[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)]));
  }
}

TEST(BatchPlan, StartsAtAnyStep) {
  const Sampler sampler = make_sampler(1000, 8, LastBatch::drop);
  const BatchPlan whole = BatchPlan::training(sampler, 2, 1, 2, 0),
                  resumed = BatchPlan::training(sampler, 2, 1, 2, 130);
  for (std::int64_t batch = 0; batch < 10; ++batch) {
    EXPECT_EQ(resumed.at(batch, 1), whole.at(130 * whole.count() + batch, 1));
  }
}

TEST(BatchPlan, RefusesAGlobalBatchThatTheRanksCannotShare) {
  const Sampler sampler = make_sampler(1000, 32, LastBatch::drop);
  expect_error(
      ExitCode::config, [&] { static_cast<void>(BatchPlan::training(sampler, 4, 0, 3, 0)); },
      "train.global_batch: 32", "4 * 3", "use 24 or 36");
}

TEST(BatchPlan, EvaluatesEverySampleOnceAndPadsTheEnd) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    std::vector<std::int64_t> seen;
    std::int64_t padding = 0, count = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = BatchPlan::evaluation(50, 8, rank, ranks);
      count = plan.count();
      for (std::int64_t row = 0; row < plan.count() * 8; ++row) {
        const SampleId id = plan.at(row / 8, row % 8);
        id.sample >= 0 ? seen.push_back(id.sample) : static_cast<void>(++padding);
      }
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), 50U);
    for (std::size_t i = 0; i < seen.size(); ++i)
      EXPECT_EQ(seen[i], static_cast<std::int64_t>(i));
    EXPECT_EQ(padding, count * ranks * 8 - 50);
  }
}

TEST(BatchPlan, EvaluatesSeveralRunsEachInMicroBatchesOfItsOwnOnAnyNumberOfRanks) {
  const std::vector<SampleRun> runs = {{0, 5}, {20, 8}, {40, 1}};
  const std::vector<std::int64_t> expected = {0,  1,  2,  3,  4,  -1, -1, -1, 20, 21,
                                              22, 23, 24, 25, 26, 27, 40, -1, -1, -1};
  for (const std::int64_t ranks : {1, 2, 4}) {
    std::vector<std::int64_t> seen;
    const std::int64_t count = BatchPlan::evaluation(runs, 4, 0, ranks).count();
    for (std::int64_t micro = 0; micro < count * ranks; ++micro) {
      const BatchPlan plan = BatchPlan::evaluation(runs, 4, micro % ranks, ranks);
      for (std::int64_t row = 0; row < 4; ++row)
        seen.push_back(plan.at(micro / ranks, row).sample);
    }
    ASSERT_GE(seen.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), seen.begin())) << ranks;
    EXPECT_TRUE(std::all_of(seen.begin() + static_cast<std::ptrdiff_t>(expected.size()), seen.end(),
                            [](std::int64_t sample) { return sample == -1; }));
  }
}

TEST(BatchPlan, RepeatsTheEvaluationPass) {
  const BatchPlan plan = BatchPlan::evaluation(16, 8, 0, 1);
  EXPECT_EQ(plan.count(), 2);
  EXPECT_EQ(plan.at(1, 7).sample, 15);
  EXPECT_EQ(plan.at(2, 0), (SampleId{1, 0}));
}

}  // namespace
}  // namespace trireme
