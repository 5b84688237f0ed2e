// SPDX-License-Identifier: Apache-2.0
// Reads that switch to a copy of an open file, and back if the copy fails.
#include "data/shard/data_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>

#include "data/sets/dataset.h"
#include "data/shard/shard.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_data.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class DataFileTest : public testing::Test {
 protected:
  [[nodiscard]] static std::string text_of(const DataFile& file) {
    std::array<char, 4> text{};
    file.read(2, std::as_writable_bytes(std::span(text)));
    return {text.begin(), text.end()};
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("data"), copy_ = directory_.file("copy");
};

TEST_F(DataFileTest, OpenFilesReadAPublishedCopy) {
  test::write_text(path_, "0123456789");
  test::write_text(copy_, "abcdefghij");
  const DataFile first(path_), second(path_);
  EXPECT_EQ(text_of(first), "2345");

  LocalCopy::of(path_)->publish(copy_);

  EXPECT_EQ(text_of(first), "cdef");
  EXPECT_EQ(text_of(second), "cdef");
  EXPECT_EQ(text_of(DataFile(path_)), "cdef");
  EXPECT_EQ(first.path(), path_);
}

TEST_F(DataFileTest, FilesThatStayOpenLeaveRoomForOthersOrAreRefused) {
  test::write_text(path_, "0123456789");
  const std::shared_ptr<LocalCopy> copy = LocalCopy::of(path_);
  const auto run = [&] {
    const rlimit few{64, 64};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) std::exit(2);
    std::vector<std::unique_ptr<DataFile>> held;
    try {
      while (held.size() < 64)
        held.push_back(std::make_unique<DataFile>(path_));
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      if (error.code() != ExitCode::internal) std::exit(3);
    }
    copy->publish(path_);  // no descriptor is left for it: the file itself is read
    if (held.size() < 32 || text_of(*held.back()) != "2345" || copy->is_there()) std::exit(4);
    std::vector<FileDescriptor> others(15);
    for (FileDescriptor& other : others)
      other = open_regular_file(path_, ExitCode::data);
    std::exit(0);
  };

  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "too many open files; raise the limit");
}

TEST_F(DataFileTest, ACopyThatCannotBeReadIsLeftForTheFile) {
  test::write_text(path_, "0123456789");
  test::write_text(copy_, "abc");
  const DataFile cut(path_);
  LocalCopy::of(path_)->publish(copy_);
  const std::string other = directory_.file("other");
  test::write_text(other, "0123456789");
  const DataFile missing(other);
  LocalCopy::of(other)->publish(directory_.file("nowhere"));

  EXPECT_EQ(text_of(cut), "2345");
  EXPECT_EQ(text_of(missing), "2345");
  EXPECT_FALSE(LocalCopy::of(path_)->is_there());
}

TEST_F(DataFileTest, DamagedBlocksOfACopyAreReadFromTheShard) {
  constexpr std::int64_t context = 300;
  test::write_token_dataset(path_, test::counting_tokens(16'801, 251), 16'801, 251);
  const std::string shard = path_ + "/" + shard_file_name(0);
  fs::copy_file(shard, copy_);
  test::flip_bit(copy_, open_shard(shard).data_offset + 20'000);
  const auto data = Dataset::open(path_, {.context = context});
  LocalCopy::of(shard)->publish(copy_);

  for (std::int64_t i = 0; i < data->size(); ++i) {
    std::array<std::int32_t, context> tokens{}, targets{};
    data->read(i, std::as_writable_bytes(std::span(tokens)), targets);
    for (std::int64_t j = 0; j < context; ++j)
      ASSERT_EQ(tokens[static_cast<std::size_t>(j)], (i * context + j) % 251);
  }
  EXPECT_FALSE(LocalCopy::of(shard)->is_there());
}

}  // namespace
}  // namespace trireme
