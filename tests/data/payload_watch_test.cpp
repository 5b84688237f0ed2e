// SPDX-License-Identifier: Apache-2.0
#include "data/payload_watch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/edit_shard.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

class PayloadWatches : public testing::Test {
 protected:
  void SetUp() override {
    test::write_token_dataset(path_, test::counting_tokens(3000, 256), 1000, 256);
  }
  [[nodiscard]] std::unique_ptr<Dataset> open() const {
    return Dataset::open(path_, {.context = 8});
  }
  [[nodiscard]] std::string shard(int index) const {
    return path_ + "/" + shard_file_name(static_cast<std::uint64_t>(index));
  }
  // A bit that leaves every id inside the vocabulary.
  void flip(int index) const {
    std::string bytes = test::read_text(shard(index));
    bytes[bytes.find(std::string("\x10\0\x11\0\x12\0", 6))] ^= 1;
    test::write_text(shard(index), bytes);
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("data");
  PayloadWatchOptions eager_{.share = 1, .interval = std::chrono::milliseconds(1)};
};

TEST_F(PayloadWatches, VerifyEveryShardOfTheirOwn) {
  const auto data = open();
  PayloadWatch all(*data, eager_);
  PayloadWatch second(*data, {.rank = 1, .ranks = 2});
  PayloadWatch none(*data, {.rank = 3, .ranks = 4});
  EXPECT_EQ(all.finish(), 3U);
  EXPECT_EQ(second.finish(), 1U);
  EXPECT_EQ(none.finish(), 0U);
}

TEST_F(PayloadWatches, FindAFlippedBitThatReadersAccept) {
  flip(2);
  const auto data = open();
  PayloadWatch watch(*data, {});
  expect_error(
      ExitCode::data, [&] { static_cast<void>(watch.finish()); }, shard(2), "block 0 (");
  expect_error(
      ExitCode::data, [&] { watch.check(); }, shard(2));
}

TEST_F(PayloadWatches, FindItInShardsWithoutBlockChecksums) {
  test::remove_block_checksums(shard(2));
  flip(2);
  const auto data = open();
  PayloadWatch watch(*data, {});
  expect_error(
      ExitCode::data, [&] { static_cast<void>(watch.finish()); }, shard(2), "payload_xxh3");
}

TEST_F(PayloadWatches, NoticeAShardThatChangesWhileItIsRead) {
  const auto data = open();
  PayloadWatch watch(*data, eager_);
  PayloadWatch at_the_end(*data, {});
  flip(0);
  expect_error(
      ExitCode::data,
      [&] {
        while (true)
          watch.check();
      },
      shard(0));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(at_the_end.finish()); }, shard(0));
}

TEST_F(PayloadWatches, NoticeAShardOfOtherDataInItsPlace) {
  const auto data = open();
  const auto other = directory_.file("other");
  test::write_token_dataset(other, test::counting_tokens(3000, 200), 1000, 256);
  PayloadWatch watch(*data, {});
  fs::rename(other + "/shard_00001.h5", shard(1));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(watch.finish()); }, shard(1));
}

TEST_F(PayloadWatches, NoticeAShardThatIsRemoved) {
  const auto data = open();
  PayloadWatch watch(*data, {});
  fs::remove(shard(1));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(watch.finish()); }, shard(1));
}

TEST_F(PayloadWatches, AcceptTheSameContentUnderANewTime) {
  const auto data = open();
  PayloadWatch watch(*data, {});
  fs::copy_file(shard(1), directory_.file("copy"));
  fs::rename(directory_.file("copy"), shard(1));
  EXPECT_EQ(watch.finish(), 3U);
}

TEST_F(PayloadWatches, DoNotDelayTheEndOfARun) {
  const auto data = open();
  // An hour's work at this share.
  PayloadWatch stopped(*data, {.share = 1e-9});
  PayloadWatch finished(*data, {.share = 1e-9, .last_bytes = 100});
  EXPECT_LT(finished.finish(), 3U);
}

}  // namespace
}  // namespace trireme
