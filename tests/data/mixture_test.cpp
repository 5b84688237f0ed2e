// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "data/loader/batch_plan.h"
#include "data/loader/mixture_order.h"
#include "data/sets/image_dataset.h"
#include "data/sets/mixture_dataset.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;

MixtureOptions mixture(std::vector<MixtureSource> sources, std::int64_t steps,
                       std::int64_t global_batch = 64) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    sources[i].name = "source" + std::to_string(i);
  return {.sources = std::move(sources), .global_batch = global_batch, .steps = steps, .seed = 5};
}

// Which source a sample belongs to.
std::size_t source_of(const MixtureOptions& options, std::int64_t sample) {
  std::size_t source = 0;
  for (; sample >= options.sources[source].samples; ++source)
    sample -= options.sources[source].samples;
  return source;
}

// The number of samples of each source in steps [first, end).
std::vector<std::int64_t> counted(const MixtureOptions& options, const MixtureOrder& order,
                                  std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> counts(options.sources.size());
  for (std::int64_t step = first; step < end; ++step) {
    for (std::int64_t slot = 0; slot < options.global_batch; ++slot)
      ++counts[source_of(options, order.at(step, slot).sample)];
  }
  return counts;
}

TEST(Mixture, GivesEverySourceItsShareInEveryBlock) {
  const MixtureOptions options = mixture({{.samples = 1000, .weight = 0.7},
                                          {.samples = 77, .weight = 0.2},
                                          {.samples = 5, .weight = 0.1}},
                                         3000);
  const MixtureOrder order(options);
  for (const auto& [first, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 3000}, {0, 10}, {1000, 1100}, {2047, 2049}}) {
    const auto counts = counted(options, order, first, end);
    const auto total = static_cast<double>((end - first) * options.global_batch);
    for (std::size_t i = 0; i < counts.size(); ++i)
      EXPECT_NEAR(static_cast<double>(counts[i]), options.sources[i].weight * total, 17)
          << "source " << i << ", steps " << first << " to " << end;
  }
}

TEST(Mixture, CountsWhatItHasDrawnWithoutDrawingIt) {
  const MixtureOptions options = mixture({{.samples = 100, .weight = 3},
                                          {.samples = 100, .weight = 1, .first_step = 700},
                                          {.samples = 40, .weight = 1, .most_epochs = 5}},
                                         2500, 48);
  const MixtureOrder order(options);
  std::vector<std::int64_t> sum(3);
  for (std::int64_t step = 0; step < 2500; ++step) {
    if (step % 250 == 0 || step == 701) {
      EXPECT_EQ(order.drawn(step), sum) << step;
    }
    const auto now = counted(options, order, step, step + 1);
    for (std::size_t i = 0; i < 3; ++i)
      sum[i] += now[i];
  }
}

TEST(Mixture, VisitsEverySampleOfASourceOncePerEpoch) {
  const MixtureOptions options = mixture({{.samples = 131, .weight = 1},
                                          {.samples = 37, .weight = 2.5, .end_step = 90},
                                          {.samples = 64, .weight = 1, .first_step = 33}},
                                         200, 32);
  const MixtureOrder order(options);
  std::map<std::pair<std::size_t, std::int64_t>, std::multiset<std::int64_t>> epochs;
  for (std::int64_t step = 0; step < 200; ++step) {
    for (std::int64_t slot = 0; slot < 32; ++slot) {
      const SampleId id = order.at(step, slot);
      epochs[{source_of(options, id.sample), id.epoch}].insert(id.sample);
    }
  }
  for (const auto& [key, samples] : epochs) {
    const auto& [source, epoch] = key;
    const bool last = !epochs.contains({source, epoch + 1});
    const std::set<std::int64_t> once(samples.begin(), samples.end());
    EXPECT_EQ(once.size(), samples.size()) << "source " << source << ", epoch " << epoch;
    if (!last) {
      EXPECT_EQ(static_cast<std::int64_t>(once.size()), options.sources[source].samples);
    }
  }
}

TEST(Mixture, LeavesSourcesOutBeforeAndAfterTheirSteps) {
  const MixtureOptions options =
      mixture({{.samples = 50, .weight = 1},
               {.samples = 50, .weight = 1, .first_step = 10, .end_step = 20}},
              30);
  const MixtureOrder order(options);
  EXPECT_EQ(counted(options, order, 0, 10)[1], 0);
  EXPECT_EQ(counted(options, order, 10, 20)[1], 320);
  EXPECT_EQ(counted(options, order, 20, 30)[1], 0);
}

TEST(Mixture, DropsASourceAfterItsEpochs) {
  const MixtureOptions options = mixture(
      {{.samples = 1000, .weight = 1}, {.samples = 100, .weight = 1, .most_epochs = 3}}, 100);
  const MixtureOrder order(options);
  const auto counts = counted(options, order, 0, 100);
  EXPECT_LE(counts[1], 300);
  EXPECT_GT(counts[1], 300 - 2 * 64);
  EXPECT_EQ(counts[0] + counts[1], 6400);
}

TEST(Mixture, WeighsBySizeAndEvensOutByTemperature) {
  MixtureOptions options = mixture({{.samples = 900}, {.samples = 100}}, 100);
  EXPECT_NEAR(static_cast<double>(counted(options, MixtureOrder(options), 0, 100)[0]), 5760, 17);
  options.temperature = 2;  // 30 to 10
  EXPECT_NEAR(static_cast<double>(counted(options, MixtureOrder(options), 0, 100)[0]), 4800, 17);
}

TEST(Mixture, IsTheSameForLongerRunsAndDiffersBySeed) {
  const MixtureOptions options =
      mixture({{.samples = 900, .weight = 1}, {.samples = 100, .weight = 1, .most_epochs = 4}}, 40);
  MixtureOptions longer = options, other = options;
  longer.steps = 4000;
  other.seed = 6;
  const MixtureOrder first(options), second(longer), third(other);
  std::int64_t different = 0;
  for (std::int64_t step = 0; step < 40; ++step) {
    for (std::int64_t slot = 0; slot < 64; ++slot) {
      EXPECT_EQ(first.at(step, slot), second.at(step, slot));
      different += first.at(step, slot) == third.at(step, slot) ? 0 : 1;
    }
  }
  EXPECT_GT(different, 2000);
}

TEST(Mixture, DealsTheSameSamplesToAnyNumberOfRanks) {
  const auto order = std::make_shared<const MixtureOrder>(
      mixture({{.samples = 90, .weight = 2}, {.samples = 40, .weight = 1}}, 20, 16));
  const auto step_of = [&](std::int64_t ranks, std::int64_t step) {
    std::vector<std::int64_t> samples;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = BatchPlan::training(Sampler(order), 4, rank, ranks, step);
      for (std::int64_t batch = 0; batch < plan.count(); ++batch) {
        for (std::int64_t row = 0; row < 4; ++row)
          samples.push_back(plan.at(batch, row).sample);
      }
    }
    return samples;
  };
  for (std::int64_t step = 0; step < 20; ++step) {
    EXPECT_EQ(step_of(1, step), step_of(2, step));
    EXPECT_EQ(step_of(1, step), step_of(4, step));
  }
}

TEST(Mixture, RefusesStepsWithoutSourcesAndTooSmallShares) {
  expect_error(
      ExitCode::config,
      [] {
        const MixtureOrder order(mixture({{.samples = 100, .weight = 1, .most_epochs = 2}}, 50));
      },
      "step 3", "data.source_epochs");
  expect_error(
      ExitCode::config,
      [] { const MixtureOrder order(mixture({{.samples = 9, .weight = 1, .first_step = 2}}, 5)); },
      "step 0");
  expect_error(
      ExitCode::config,
      [] {
        const MixtureOrder order(
            mixture({{.samples = 9, .weight = 1}, {.samples = 9, .weight = 1e-6}}, 5));
      },
      "source1", "data.weights");
}

class MixtureData : public testing::Test {
 protected:
  [[nodiscard]] MixtureDataset::Source tokens(const std::string& name, std::size_t count,
                                              std::uint64_t vocabulary,
                                              std::int64_t context = 8) const {
    const std::string path = directory_.file(name);
    if (!std::filesystem::exists(path))
      test::write_token_dataset(path, test::counting_tokens(count, 200), 500, vocabulary);
    return {name, std::shared_ptr<const Dataset>(Dataset::open(path, {.context = context}))};
  }
  test::TemporaryDirectory directory_;
};

TEST_F(MixtureData, ReadsTheSamplesOfItsSourcesConcatenated) {
  const auto first = tokens("a", 801, 256), second = tokens("b", 161, 300);
  const MixtureDataset both({first, second}, "");
  ASSERT_EQ(both.size(), 120);
  EXPECT_EQ(both.shards().size(), first.data->shards().size() + second.data->shards().size());
  for (const std::int64_t index : {0, 99, 100, 119}) {
    const auto& source = index < 100 ? first : second;
    std::vector<std::int32_t> inputs(8), targets(8), expected(8), expected_targets(8);
    both.read(index, std::as_writable_bytes(std::span(inputs)), targets);
    source.data->read(index % 100, std::as_writable_bytes(std::span(expected)), expected_targets);
    EXPECT_EQ(inputs, expected);
    EXPECT_EQ(targets, expected_targets);
  }
}

TEST_F(MixtureData, HasAFingerprintOfItsSourcesAndOfHowTheyAreMixed) {
  const auto first = tokens("a", 801, 256), second = tokens("b", 161, 300);
  const std::uint64_t fingerprint = MixtureDataset({first, second}, "half").fingerprint();
  EXPECT_EQ(MixtureDataset({first, second}, "half").fingerprint(), fingerprint);
  EXPECT_NE(MixtureDataset({second, first}, "half").fingerprint(), fingerprint);
  EXPECT_NE(MixtureDataset({first, second}, "other").fingerprint(), fingerprint);
  EXPECT_NE(MixtureDataset({first}, "half").fingerprint(), fingerprint);
}

TEST_F(MixtureData, PackedImagesBecomeScaledFloats) {
  const std::string path = directory_.file("images");
  test::write_image_dataset(path, 6, 3, 4, 3);
  auto images = Dataset::open(path, {});
  const auto pixels = static_cast<std::size_t>(images->layout().inputs.count());
  std::vector<std::byte> bytes(pixels);
  std::int32_t label = 0, given = -1;
  images->read(4, bytes, {&label, 1});
  const std::uint64_t fingerprint = images->fingerprint();

  const std::vector<double> mean{0.1}, std{0.25}, two{1, 2};
  const FloatImages scaled(std::move(images), mean, std);

  EXPECT_EQ(scaled.fingerprint(), fingerprint);
  std::vector<float> floats(pixels);
  scaled.read(4, std::as_writable_bytes(std::span(floats)), {&given, 1});
  EXPECT_EQ(given, label);
  for (std::size_t i = 0; i < pixels; ++i) {
    EXPECT_EQ(floats[i], (static_cast<float>(bytes[i]) / 255.0F - 0.1F) / 0.25F);
  }
  expect_error(
      ExitCode::data, [&] { const FloatImages more(Dataset::open(path, {}), two, {}); },
      "mean and std of 2 channels");
}

TEST_F(MixtureData, RefusesSourcesThatAreNotAlike) {
  expect_error(
      ExitCode::data,
      [&] {
        const MixtureDataset both({tokens("a", 801, 256), tokens("b", 161, 256, 4)}, "");
      },
      "b: its samples are", "those of a");
}

}  // namespace
}  // namespace trireme
