// SPDX-License-Identifier: Apache-2.0
#include "data/shard/block_checks.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/loader/loader.h"
#include "data/payload_watch.h"
#include "data/shard/shard_set.h"
#include "data/verify.h"
#include "runtime/base/philox.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

struct Kind {
  const char* name;
  DataKind kind;
  DType dtype;
};

class BlockChecksOf : public testing::TestWithParam<Kind> {
 protected:
  static constexpr std::int64_t context = 300, batch = 4;

  void SetUp() override {
    if (GetParam().kind == DataKind::tokens) {
      // Windows that cross blocks and shards, and end with the last token.
      test::write_token_dataset(data_, test::counting_tokens(16'801, 251), 7000, 251,
                                GetParam().dtype);
    } else {
      test::write_image_dataset(data_, 40, 16, 11, 4);
    }
    for (const std::string& path : list_shards(data_, "").paths)
      shards_.push_back(open_shard(path));
  }
  [[nodiscard]] static std::unique_ptr<Dataset> open(const std::string& path,
                                                     bool check_blocks = true) {
    return Dataset::open(path, {.context = GetParam().kind == DataKind::tokens ? context : 0,
                                .check_blocks = check_blocks});
  }
  // Two epochs from `step` of the first one: the reads of a run that resumes there.
  static void load(const std::string& path, std::int64_t step) {
    const auto data = open(path);
    const auto device = Device::create(DeviceType::cpu);
    const auto copy = device->make_stream(StreamKind::copy),
               compute = device->make_stream(StreamKind::compute);
    const Sampler sampler({.samples = data->size(), .global_batch = batch, .seed = 5});
    Loader loader(*device, *data, BatchPlan::training(sampler, batch, 0, 1, step), {});
    for (std::int64_t i = 0; i < 2 * data->size() / batch; ++i)
      static_cast<void>(loader.next(*copy, *compute));
    copy->synchronize();
  }

  test::TemporaryDirectory directory_;
  std::string data_ = directory_.file("data");
  std::vector<Shard> shards_;
};

TEST_P(BlockChecksOf, EveryFlippedBitIsFoundBeforeUseFromAnyStart) {
  const Philox random = Philox::keyed(1, RandomPurpose::test);
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    const auto words = random(4, trial);
    const Shard& shard = shards_[words[0] % shards_.size()];
    const std::uint64_t at = words[1] % shard.data_bytes();
    const unsigned bit = words[2] % 8;
    test::flip_bit(shard.path, shard.data_offset + at, bit);

    expect_error(
        ExitCode::data, [&] { load(data_, words[3] % 8); }, shard.path,
        fmt::format("block {} (", at / shard.block_bytes), "read for sample", "computed",
        "trireme data inspect --verify " + shard.path);

    test::flip_bit(shard.path, shard.data_offset + at, bit);
  }
  load(data_, 0);
}

TEST_P(BlockChecksOf, TheSampleThatIsNamedHoldsPartOfTheBlock) {
  const Shard& shard = shards_.back();
  const bool tokens = GetParam().kind == DataKind::tokens;
  test::flip_bit(shard.path, shard.data_offset + shard.data_bytes() - 1);
  const auto data = open(data_);
  std::vector<std::byte> inputs(data->layout().input_bytes());
  std::vector<std::int32_t> targets(static_cast<std::size_t>(data->layout().targets.count()));
  expect_error(
      ExitCode::data, [&] { data->read(data->size() - 1, inputs, targets); },
      fmt::format("read for sample {}", data->size() - 1),
      tokens ? fmt::format("to {} of this shard", shard.header.count - 1)
             : fmt::format("(image {} of this shard", shard.header.count - 1));
}

TEST_P(BlockChecksOf, EveryFlippedBitOfTheOffsetsOrLabelsIsFound) {
  const Philox random = Philox::keyed(2, RandomPurpose::test);
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    const auto words = random(4, trial);
    const Shard& shard = shards_[words[0] % shards_.size()];
    const std::uint64_t at = shard.index_offset + words[1] % shard.index_bytes();
    test::flip_bit(shard.path, at, words[2] % 8);
    expect_error(
        ExitCode::data,
        [&] {  // labels when it is opened; offsets, which training does not read, beside the run
          const auto data = open(data_);
          static_cast<void>(PayloadWatch(*data, {}).finish());
        },
        shard.path, fmt::format("block {} (", shard.data_blocks()));
    test::flip_bit(shard.path, at, words[2] % 8);
  }
}

TEST_P(BlockChecksOf, ACopyOnALocalDiskIsCheckedWhileRead) {
  const std::string copy = directory_.file("copy");
  fs::copy(data_, copy);
  const std::string damaged = copy + "/" + shard_file_name(1);
  test::flip_bit(damaged, shards_[1].data_offset + 1000);
  load(data_, 0);
  expect_error(
      ExitCode::data, [&] { load(copy, 3); }, damaged, "copy it again");
}

TEST_P(BlockChecksOf, SamplesAreTheSameWithAndWithoutThem) {
  const auto plain = open(data_, false);
  std::vector<std::byte> inputs(plain->layout().input_bytes()), expected = inputs;
  std::vector<std::int32_t> targets(static_cast<std::size_t>(plain->layout().targets.count())),
      expected_targets = targets;
  const auto checked = open(data_);
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t i = checked->size() - 1; i >= 0; --i) {
      checked->read(i, inputs, targets);
      plain->read(i, expected, expected_targets);
      ASSERT_EQ(inputs, expected) << i;
      ASSERT_EQ(targets, expected_targets) << i;
    }
  }
}

TEST_P(BlockChecksOf, OlderShardsAreReadAndHaveTheSameFingerprint) {
  const std::uint64_t fingerprint = open(data_)->fingerprint();
  for (const Shard& shard : shards_)
    test::remove_block_checksums(shard.path);

  EXPECT_EQ(open(data_)->fingerprint(), fingerprint);
  load(data_, 2);
  for (const ShardReport& report : verify_dataset(data_))
    EXPECT_EQ(report.problem, "");
  test::flip_bit(shards_[0].path, shards_[0].data_offset + 2 * shards_[0].element_bytes() - 2);
  EXPECT_NE(verify_dataset(data_)[0].problem, "");
}

TEST_P(BlockChecksOf, VerifyListsEveryDamagedBlock) {
  const Shard& shard = shards_[0];
  const std::uint64_t last = shard.data_blocks() - 1;
  test::flip_bit(shard.path, shard.data_offset + last * shard.block_bytes);
  test::flip_bit(shard.path, shard.data_offset);
  test::flip_bit(shard.path, shard.index_offset);
  const std::string problem = verify_dataset(data_)[0].problem;
  EXPECT_NE(problem.find("block 0 ("), std::string::npos) << problem;
  EXPECT_NE(problem.find(fmt::format("nor do 2 more: {}, {}", last, last + 1)), std::string::npos)
      << problem;
}

TEST_P(BlockChecksOf, ADamagedTableIsRefusedAtOnce) {
  for (const std::uint64_t byte : {std::uint64_t{0}, 4 * shards_[0].data_blocks()}) {
    test::flip_bit(shards_[0].path, shards_[0].table_offset + byte);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(data_)); }, shards_[0].path,
        "table of block checksums", "copy it again");
    EXPECT_NE(verify_dataset(data_)[0].problem, "");
    test::flip_bit(shards_[0].path, shards_[0].table_offset + byte);
  }
}

TEST_P(BlockChecksOf, ATableOfAnotherShardIsRefused) {
  std::string bytes = test::read_text(shards_[0].path);
  const std::string other = test::read_text(shards_[1].path);
  const std::uint64_t blocks = shards_[0].data_blocks();
  bytes.replace(shards_[0].table_offset, 4 * blocks, other, shards_[1].table_offset, 4 * blocks);
  test::write_text(shards_[0].path, bytes);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(data_)); }, "table of block checksums");
}

TEST_P(BlockChecksOf, HalfATableIsRefused) {
  for (const char* const name : test::block_attributes) {
    const std::string path = directory_.file(shard_file_name(0));
    fs::copy_file(shards_[0].path, path, fs::copy_options::overwrite_existing);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(H5Adelete(file, name), 0);
    ASSERT_GE(H5Fclose(file), 0);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(path)); }, path, "lacks some of");
  }
}

TEST_P(BlockChecksOf, SizesThatNoPackerWritesAreRefused) {
  for (const std::uint64_t bytes : {0ULL, 1ULL, 122ULL, 4097ULL, 131'072ULL, ~0ULL}) {
    const hid_t file = H5Fopen(shards_[0].path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(file, "block_bytes", H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_UINT64, &bytes), 0);
    H5Aclose(attribute);
    ASSERT_GE(H5Fclose(file), 0);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open_shard(shards_[0].path)); },
        fmt::format("block_bytes {} is not", bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BlockChecksOf,
                         testing::Values(Kind{"Narrow", DataKind::tokens, DType::u16},
                                         Kind{"Wide", DataKind::tokens, DType::u32},
                                         Kind{"Images", DataKind::images, DType::u8}),
                         [](const auto& info) { return std::string(info.param.name); });

// Around the sizes of a block and of the read buffer.
TEST(BlockChecks, AnyWindowIsReadAsItIsStored) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file(shard_file_name(0));
  const auto tokens = test::counting_tokens(100'003, 50'000);
  test::write_token_shard(path, test::token_header(tokens.size(), 50'000), tokens);
  for (const std::uint64_t count : {1, 2047, 2048, 2049, 32'767, 32'768, 32'769, 70'001}) {
    for (const std::uint64_t first : {0, 1, 2047, 2048, 30'001}) {
      const ShardSet set({{path}, false});
      std::vector<std::uint16_t> window(count);
      set.read(0, 2 * first, std::as_writable_bytes(std::span(window)), {});
      for (std::uint64_t i = 0; i < count; ++i)
        ASSERT_EQ(window[i], tokens[first + i]) << count << " tokens from " << first;
    }
  }
}

TEST(BlockChecks, AReadVerifiesItsBlock) {
  const test::TemporaryDirectory directory;
  test::write_token_dataset(directory.path(), test::counting_tokens(20'000, 256), 20'000, 256);
  const ShardSet set(list_shards(directory.path(), ""));
  BlockChecks& blocks = *set.shards()[0].blocks;
  EXPECT_FALSE(blocks.are_verified(5000, 2));
  std::vector<std::byte> window(2);
  set.read(0, 5000, window, {});
  EXPECT_TRUE(blocks.are_verified(4096, 4096));
  EXPECT_FALSE(blocks.are_verified(4095, 2));
  EXPECT_FALSE(blocks.are_verified(8191, 2));
}

}  // namespace
}  // namespace trireme
