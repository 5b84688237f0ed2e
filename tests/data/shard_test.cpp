// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "data/verify.h"
#include "tests/data/fields/make_fields.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::read_text;

class ShardTest : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("shard_00000.h5");
};

std::vector<std::byte> bytes_at(const std::string& path, std::uint64_t offset, std::size_t count) {
  const std::string all = read_text(path);
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::byte>(all.at(offset + i)));
  return out;
}

TEST_F(ShardTest, KeepsEverythingThatWasWrittenOfTokens) {
  ShardHeader header = test::token_header(1001, 300);
  header.continues = true;
  header.shard_index = 2;
  header.shard_count = 5;
  header.tokenizer = "huggingface:tokenizer.json:xxh3=0123456789abcdef";
  test::write_token_shard(path_, header, test::counting_tokens(1001, 300), {0, 1, 700, 1001});

  const Shard shard = open_shard(path_);

  EXPECT_EQ(shard.header.kind, DataKind::tokens);
  EXPECT_EQ(shard.header.dtype, DType::u16);
  EXPECT_EQ(shard.header.count, 1001U);
  EXPECT_EQ(shard.header.documents, 3U);
  EXPECT_TRUE(shard.header.continues);
  EXPECT_EQ(shard.header.shard_index, 2U);
  EXPECT_EQ(shard.header.shard_count, 5U);
  EXPECT_EQ(shard.header.tokenizer, header.tokenizer);
  EXPECT_EQ(shard.header.vocabulary, 300U);
  EXPECT_EQ(shard.file_bytes, fs::file_size(path_));
  EXPECT_NO_THROW(verify_payload(shard));
}

TEST_F(ShardTest, KeepsEverythingThatWasWrittenOfImages) {
  test::write_image_dataset(directory_.path(), 7, 7, 5, 3);

  const Shard shard = open_shard(path_);

  EXPECT_EQ(shard.header.kind, DataKind::images);
  EXPECT_EQ(shard.header.height, 5U);
  EXPECT_EQ(shard.header.width, 5U);
  EXPECT_EQ(shard.header.channels, 1U);
  EXPECT_EQ(shard.header.classes, (std::vector<std::string>{"class 0", "class 1", "class 2"}));
  EXPECT_NO_THROW(verify_payload(shard));
}

TEST_F(ShardTest, HoldsThousandsOfLongClassNames) {
  ShardHeader header = test::image_header(1, 2, 0);
  for (int i = 0; i < 5000; ++i)
    header.classes.push_back(fmt::format("a rather long class name, number {}", i));
  ShardWriter writer(path_, header);
  writer.write("abcd", 1);
  writer.finish(std::vector<std::int32_t>{4999});

  EXPECT_EQ(open_shard(path_).header.classes, header.classes);
}

TEST_F(ShardTest, GivesPreadTheSameBytesAsTheLibrary) {
  for (const DType dtype : {DType::u16, DType::u32}) {
    const std::vector<std::uint32_t> tokens = test::counting_tokens(5000, 300);
    test::write_token_shard(path_, test::token_header(5000, 300, dtype), tokens);
    const Shard shard = open_shard(path_);
    std::vector<std::byte> through_library(shard.data_bytes());

    {
      using test::H5;
      const H5 file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
      const H5 data(H5Dopen2(file, "tokens", H5P_DEFAULT), H5Dclose),
          type(H5Dget_type(data), H5Tclose);
      ASSERT_GE(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, through_library.data()), 0);
    }

    EXPECT_EQ(bytes_at(path_, shard.data_offset, shard.data_bytes()), through_library);
  }
}

TEST_F(ShardTest, IsTheSameFileForTheSameInput) {
  const std::vector<std::uint32_t> tokens = test::counting_tokens(999, 256);
  test::write_token_shard(path_, test::token_header(999, 256), tokens);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // time stamps have seconds
  const std::string other = directory_.file("other.h5");
  test::write_token_shard(other, test::token_header(999, 256), tokens);

  EXPECT_TRUE(read_text(path_) == read_text(other));
}

TEST_F(ShardTest, HasTheSameChecksumHoweverItWasStreamed) {
  const std::vector<std::uint32_t> tokens = test::counting_tokens(70001, 65536);
  test::write_token_shard(path_, test::token_header(70001, 65536, DType::u32), tokens);
  const std::string pieces = directory_.file("pieces.h5");
  ShardWriter writer(pieces, test::token_header(70001, 65536, DType::u32));
  for (std::size_t done = 0, size = 1; done < tokens.size(); done += size, size = 2 * size + 1) {
    size = std::min(size, tokens.size() - done);
    writer.write(tokens.data() + done, size);
  }
  writer.finish(std::vector<std::uint64_t>{0, 70001});

  EXPECT_TRUE(read_text(path_) == read_text(pieces));
}

TEST_F(ShardTest, IsNotThereBeforeItIsFinished) {
  {
    ShardWriter writer(path_, test::token_header(4, 256));
    const std::vector<std::uint16_t> tokens = {1, 2, 3, 4};
    writer.write(tokens.data(), 4);
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

TEST_F(ShardTest, CannotBeFinishedShortOrOverfilled) {
  ShardWriter writer(path_, test::token_header(4, 256));
  const std::vector<std::uint16_t> tokens = {1, 2, 3, 4, 5};
  writer.write(tokens.data(), 3);

  expect_error(
      ExitCode::internal,
      [&] {
        writer.finish(std::vector<std::uint64_t>{0, 4});
      },
      "3 of 4 elements");
  expect_error(
      ExitCode::internal, [&] { writer.write(tokens.data(), 2); }, "2 elements");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ShardTest, NamesTheDirectoryThatCannotBeWritten) {
  expect_error(
      ExitCode::internal,
      [] { ShardWriter("/proc/none/shard_00000.h5", test::token_header(4, 256)); },
      "open(/proc/none)");
}

}  // namespace
}  // namespace trireme
