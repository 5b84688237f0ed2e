// SPDX-License-Identifier: Apache-2.0
#include "data/loader/loader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <numeric>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/device/device.h"
#include "tests/data/make_data.h"
#include "tests/support/allocation_count.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

struct HostBatch {
  std::vector<std::int32_t> inputs, targets;
  std::vector<std::int64_t> ids, epochs;
  friend bool operator==(const HostBatch&, const HostBatch&) = default;
};

template <typename T>
std::vector<T> values(const Tensor& tensor) {
  return {tensor.as<T>(), tensor.as<T>() + tensor.count()};
}

HostBatch host(const Batch& batch) {
  return {values<std::int32_t>(batch.inputs), values<std::int32_t>(batch.targets),
          values<std::int64_t>(batch.sample_ids), values<std::int64_t>(batch.epochs)};
}

// A data set without files, with slow or failing reads.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(std::int64_t size) : size_(size) {}
  [[nodiscard]] DataKind kind() const override { return DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return 0; }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return shards_; }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    ++reads;
    if (index == failing) fail(ExitCode::data, "sample {} cannot be read", index);
    std::this_thread::sleep_for(delay);
    const auto value = static_cast<std::int32_t>(index);
    std::memcpy(inputs.data(), &value, sizeof(value));
    targets[0] = value + 1;
  }

  std::int64_t failing = -1;
  std::chrono::milliseconds delay{0};
  mutable std::atomic<int> reads = 0;

 private:
  std::int64_t size_;
  SampleLayout layout_{.inputs = Shape{1}, .targets = Shape{1}};

 protected:
  void set_layout(const SampleLayout& layout) { layout_ = layout; }

 private:
  std::vector<Shard> shards_;
};

class LoaderTest : public testing::Test {
 protected:
  static Sampler sampler(std::int64_t samples, std::int64_t batch,
                         LastBatch last = LastBatch::drop) {
    return Sampler({.samples = samples,
                    .global_batch = batch,
                    .seed = 7,
                    .shuffle = true,
                    .last_batch = last});
  }
  std::vector<HostBatch> take(Loader& loader, int count) {
    std::vector<HostBatch> batches;
    for (int i = 0; i < count; ++i)
      batches.push_back(host(loader.next(*copy_, *compute_)));
    return batches;
  }

  std::unique_ptr<Device> device_ = Device::create(DeviceType::cpu);
  std::unique_ptr<Stream> copy_ = device_->make_stream(StreamKind::copy);
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::compute);
  test::TemporaryDirectory directory_;
};

TEST_F(LoaderTest, DeliversTheSamplesOfThePlan) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(1000, 60000), 300, 60000);
  const auto dataset = Dataset::open(directory_.path(), {.context = 8});
  const BatchPlan plan = BatchPlan::training(sampler(dataset->size(), 12), 3, 1, 2, 0);
  Loader loader(*device_, *dataset, plan, {});
  for (std::int64_t k = 0; k < 60; ++k) {
    const Batch& batch = loader.next(*copy_, *compute_);
    ASSERT_EQ(batch.inputs.shape, (Shape{3, 8}));
    ASSERT_EQ(batch.targets.shape, (Shape{3, 8}));
    for (std::int64_t row = 0; row < 3; ++row) {
      const SampleId id = plan.at(k, row);
      ASSERT_EQ(batch.sample_ids.as<std::int64_t>()[row], id.sample);
      ASSERT_EQ(batch.epochs.as<std::int64_t>()[row], id.epoch);
      ASSERT_EQ(batch.inputs.as<std::int32_t>()[row * 8 + 5], id.sample * 8 + 5);
      ASSERT_EQ(batch.targets.as<std::int32_t>()[row * 8 + 5], id.sample * 8 + 6);
    }
  }
}

// Documents of one, two and three tokens in turn.
class DocumentDataset : public FakeDataset {
 public:
  DocumentDataset() : FakeDataset(5) { set_layout(token_samples(4, /*documents=*/true)); }
  void read(std::int64_t /*index*/, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    std::ranges::fill(inputs, std::byte{1});
    std::ranges::fill(targets, 9);
  }
  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override {
    constexpr std::array begins{0, 1, 1, 3, 3, 3};
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::int64_t at = index * 4 + static_cast<std::int64_t>(i);
      const std::int64_t begin = at / 6 * 6 + begins[static_cast<std::size_t>(at % 6)];
      starts[i] = static_cast<std::int32_t>(std::max<std::int64_t>(begin - index * 4, 0));
    }
  }
};

TEST_F(LoaderTest, KeepsDocumentsApart) {
  const DocumentDataset dataset;
  const BatchPlan plan = BatchPlan::evaluation(dataset.size(), 2, 0, 1);
  Loader loader(*device_, dataset, plan, {});
  std::vector<std::int32_t> bounds;
  const auto next = [&] {
    const Batch& batch = loader.next(*copy_, *compute_);
    EXPECT_EQ(batch.document_starts.shape, (Shape{2, 4}));
    bounds = values<std::int32_t>(batch.document_bounds);
    return std::pair(values<std::int32_t>(batch.document_starts),
                     values<std::int32_t>(batch.targets));
  };
  using Values = std::vector<std::int32_t>;

  const auto [first, first_targets] = next();
  EXPECT_EQ(bounds, (Values{0, 1, 3, 4, 6, 7, 8, 8, 8}));
  static_cast<void>(next());
  const auto [last, last_targets] = next();

  EXPECT_EQ(first, (Values{0, 1, 1, 3, 0, 0, 2, 3}));
  EXPECT_EQ(first_targets, (Values{-1, 9, -1, 9, 9, -1, -1, 9}));
  EXPECT_EQ(last, (Values{0, 0, 2, 3, 0, 0, 0, 0})) << "a padding row behind the last sample";
  EXPECT_EQ(last_targets, (Values{9, -1, -1, 9, -1, -1, -1, -1}));
}

// In all samples but the last every token is a document.
class TinyDocuments final : public DocumentDataset {
 public:
  TinyDocuments() { set_layout(token_samples(8, /*documents=*/true)); }
  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override {
    std::iota(starts.begin(), starts.end(), 0);
    if (index == 4) std::ranges::fill(starts, 0);
  }
};

TEST_F(LoaderTest, LeavesOutBoundsOfMoreDocumentsThanThereArePlaces) {
  const TinyDocuments dataset;
  Loader loader(*device_, dataset, BatchPlan::evaluation(dataset.size(), 4, 0, 1), {});

  const Batch& many = loader.next(*copy_, *compute_);
  EXPECT_EQ(many.document_bounds.data, nullptr);
  EXPECT_EQ(many.document_bounds.shape, (Shape{17}));

  const Batch& few = loader.next(*copy_, *compute_);  // of which three rows are padding
  ASSERT_NE(few.document_bounds.data, nullptr);
  std::vector<std::int32_t> expected(17, 32);
  std::ranges::copy(std::array{0, 8, 16, 24}, expected.begin());
  EXPECT_EQ(values<std::int32_t>(few.document_bounds), expected);
}

TEST_F(LoaderTest, DeliversImagesWithLabels) {
  test::write_image_dataset(directory_.path(), 30, 12, 4, 5);
  const auto dataset = Dataset::open(directory_.path(), {});
  Loader loader(*device_, *dataset, BatchPlan::training(sampler(30, 6), 6, 0, 1, 0), {});
  for (int k = 0; k < 20; ++k) {
    const Batch& batch = loader.next(*copy_, *compute_);
    ASSERT_EQ(batch.inputs.shape, (Shape{6, 4, 4, 1}));
    ASSERT_EQ(batch.targets.shape, (Shape{6}));
    for (std::int64_t row = 0; row < 6; ++row) {
      const std::int64_t id = batch.sample_ids.as<std::int64_t>()[row];
      ASSERT_EQ(batch.inputs.as<std::uint8_t>()[row * 16 + 15], id);
      ASSERT_EQ(batch.targets.as<std::int32_t>()[row], id % 5);
    }
  }
}

TEST_F(LoaderTest, DoesNotDependOnWorkersOrPrefetch) {
  const FakeDataset dataset(1000);
  const BatchPlan plan = BatchPlan::training(sampler(1000, 8), 8, 0, 1, 0);
  std::vector<HostBatch> expected;
  for (const std::int64_t workers : {1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 2, 7}) {
      Loader loader(*device_, dataset, plan, {.workers = workers, .prefetch = prefetch});
      const std::vector<HostBatch> batches = take(loader, 40);
      if (expected.empty()) expected = batches;
      EXPECT_EQ(batches, expected) << workers << " workers, prefetch " << prefetch;
    }
  }
}

TEST_F(LoaderTest, ResumesAtAnyStepWithTheSameBatches) {
  const FakeDataset dataset(100);
  Loader whole(*device_, dataset, BatchPlan::training(sampler(100, 8), 2, 1, 2, 0), {});
  const std::vector<HostBatch> all = take(whole, 60);

  Loader resumed(*device_, dataset, BatchPlan::training(sampler(100, 8), 2, 1, 2, 13), {});

  EXPECT_EQ(take(resumed, 34), std::vector<HostBatch>(all.begin() + 26, all.end()));
}

TEST_F(LoaderTest, KeepsTheHeldBatchesValid) {
  const FakeDataset dataset(1000);
  const BatchPlan plan = BatchPlan::training(sampler(1000, 4), 4, 0, 1, 0);
  Loader reference(*device_, dataset, plan, {}), loader(*device_, dataset, plan, {.held = 3});
  const std::vector<HostBatch> expected = take(reference, 30);
  std::vector<const Batch*> held;
  for (std::size_t k = 0; k < 30; ++k) {
    held.push_back(&loader.next(*copy_, *compute_));
    for (std::size_t back = 0; back < std::min<std::size_t>(3, k + 1); ++back) {
      ASSERT_EQ(host(*held[k - back]), expected[k - back])
          << "batch " << k - back << " after " << k;
    }
  }
}

TEST_F(LoaderTest, PadsTheEndOfAnEvaluationPass) {
  const FakeDataset dataset(10);
  const BatchPlan plan = BatchPlan::evaluation(10, 4, 0, 1);
  Loader loader(*device_, dataset, plan, {});
  for (int pass = 0; pass < 3; ++pass) {
    const std::vector<HostBatch> batches = take(loader, 3);
    EXPECT_EQ(batches[0].ids, (std::vector<std::int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(batches[2].ids, (std::vector<std::int64_t>{8, 9, -1, -1}));
    EXPECT_EQ(batches[2].inputs, (std::vector<std::int32_t>{8, 9, 0, 0}));
    EXPECT_EQ(batches[2].targets,
              (std::vector<std::int32_t>{9, 10, ignored_target, ignored_target}));
  }
}

TEST_F(LoaderTest, AllocatesNothingAfterItIsMade) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(1000, 250), 300, 250);
  const auto dataset = Dataset::open(directory_.path(), {.context = 8});
  Loader loader(*device_, *dataset, BatchPlan::training(sampler(dataset->size(), 4), 4, 0, 1, 0),
                {});
  for (int i = 0; i < 20; ++i)
    static_cast<void>(loader.next(*copy_, *compute_));
  const std::size_t before = test::allocations;
  const std::uint64_t buffers = device_->memory_use(MemoryKind::host).allocations;

  for (int i = 0; i < 200; ++i)
    static_cast<void>(loader.next(*copy_, *compute_));

  EXPECT_EQ(test::allocations, before);
  EXPECT_EQ(device_->memory_use(MemoryKind::host).allocations, buffers);
}

TEST_F(LoaderTest, RaisesAWorkersErrorWithTheBatchItBelongsTo) {
  FakeDataset dataset(40);
  dataset.failing = 22;
  const BatchPlan plan = BatchPlan::evaluation(40, 4, 0, 1);
  for (const std::int64_t workers : {1, 3}) {
    Loader loader(*device_, dataset, plan, {.workers = workers, .prefetch = 3});
    EXPECT_EQ(take(loader, 5)[4].ids, (std::vector<std::int64_t>{16, 17, 18, 19}));
    for (int again = 0; again < 2; ++again) {
      expect_error(
          ExitCode::data, [&] { static_cast<void>(loader.next(*copy_, *compute_)); },
          "sample 22 cannot be read");
    }
  }
}

TEST_F(LoaderTest, NamesTheFileThatIsCutWhileTraining) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(10000, 250), 5000, 250);
  const auto dataset = Dataset::open(directory_.path(), {.context = 10});
  Loader loader(*device_, *dataset, BatchPlan::training(sampler(dataset->size(), 4), 4, 0, 1, 0),
                {});
  static_cast<void>(loader.next(*copy_, *compute_));
  fs::resize_file(directory_.file("shard_00001.h5"), 100);

  expect_error(
      ExitCode::data,
      [&] {
        for (int i = 0; i < 300; ++i)
          static_cast<void>(loader.next(*copy_, *compute_));
      },
      directory_.file("shard_00001.h5"), "ends at byte");
}

TEST_F(LoaderTest, StopsAfterTheSampleBeingReadWhenDestroyed) {
  FakeDataset dataset(1000);
  dataset.delay = std::chrono::milliseconds(20);
  {
    const Loader loader(*device_, dataset, BatchPlan::training(sampler(1000, 100), 100, 0, 1, 0),
                        {.workers = 2});
  }
  // Of 400 samples in the ring, the two workers may have started a few.
  EXPECT_LT(dataset.reads, 50);
}

TEST_F(LoaderTest, CanBeDestroyedWithACopyInFlight) {
  const FakeDataset dataset(1000);
  for (int i = 0; i < 50; ++i) {
    Loader loader(*device_, dataset, BatchPlan::training(sampler(1000, 4), 4, 0, 1, 0), {});
    for (int k = 0; k < i % 4; ++k)
      static_cast<void>(loader.next(*copy_, *compute_));
  }
}

TEST_F(LoaderTest, CountsTheTimeThatTheCallerWaited) {
  FakeDataset dataset(100);
  dataset.delay = std::chrono::milliseconds(5);
  Loader loader(*device_, dataset, BatchPlan::training(sampler(100, 4), 4, 0, 1, 0),
                {.workers = 1});
  EXPECT_EQ(loader.wait_seconds(), 0);
  static_cast<void>(take(loader, 3));
  EXPECT_GE(loader.wait_seconds(), 0.02);  // the first batch alone needs four reads
}

TEST_F(LoaderTest, CountsNoWaitWhileTheComputeStreamIsBusy) {
  FakeDataset dataset(100);
  dataset.delay = std::chrono::milliseconds(100);
  const auto busy = device_->make_stream(StreamKind::comm);  // with a thread, like a GPU stream
  std::promise<void> work;
  Loader loader(*device_, dataset, BatchPlan::training(sampler(100, 1), 1, 0, 1, 0),
                {.workers = 1, .prefetch = 1});
  static_cast<void>(loader.next(*copy_, *busy));
  const double before = loader.wait_seconds();
  enqueue(*busy, [&] { work.get_future().wait(); });
  const auto start = std::chrono::steady_clock::now();
  static_cast<void>(loader.next(*copy_, *busy));
  const double took = seconds_since(start);
  work.set_value();
  busy->synchronize();
  EXPECT_GT(before, 0);
  EXPECT_LT(loader.wait_seconds() - before, took / 2);
}

}  // namespace
}  // namespace trireme
