// SPDX-License-Identifier: Apache-2.0
#include "data/sets/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/inspect.h"
#include "data/sets/masked_tokens.h"
#include "data/sets/token_dataset.h"
#include "data/verify.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

struct Sample {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

Sample read_tokens(const Dataset& dataset, std::int64_t index) {
  Sample sample;
  sample.inputs.resize(static_cast<std::size_t>(dataset.layout().inputs.count()));
  sample.targets.resize(static_cast<std::size_t>(dataset.layout().targets.count()));
  dataset.read(index, std::as_writable_bytes(std::span(sample.inputs)), sample.targets);
  return sample;
}

class DatasetTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Dataset> open(std::int64_t context) const {
    return Dataset::open(directory_.path(), {.context = context});
  }
  template <typename... Parts>
  void expect_refused(const DatasetOptions& options, const Parts&... parts) const {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(Dataset::open(directory_.path(), options)); },
        parts...);
  }
  [[nodiscard]] std::string shard(std::uint64_t index) const {
    return directory_.file(shard_file_name(index));
  }

  test::TemporaryDirectory directory_;
};

TEST_F(DatasetTest, CutsTheStreamIntoWindowsWhateverTheShards) {
  for (const DType dtype : {DType::u16, DType::u32}) {
    for (const std::size_t shard_tokens : {57U, 250U, 1001U}) {
      const test::TemporaryDirectory directory;
      test::write_token_dataset(directory.path(), test::counting_tokens(1001, 60000), shard_tokens,
                                60000, dtype);
      for (const std::int64_t context : {1, 3, 16, 250, 1000}) {
        const auto dataset = Dataset::open(directory.path(), {.context = context});
        ASSERT_EQ(dataset->size(), 1000 / context);
        for (std::int64_t i = 0; i < dataset->size(); ++i) {
          const Sample sample = read_tokens(*dataset, i);
          for (std::int64_t t = 0; t < context; ++t) {
            ASSERT_EQ(sample.inputs[static_cast<std::size_t>(t)], i * context + t);
            ASSERT_EQ(sample.targets[static_cast<std::size_t>(t)], i * context + t + 1);
          }
        }
      }
    }
  }
}

TEST_F(DatasetTest, ReadsWindowsLongerThanItsInnerBlocks) {
  const std::vector<std::uint32_t> tokens = test::counting_tokens(50001, 65536);
  test::write_token_dataset(directory_.path(), tokens, 20000, 65536);
  const auto dataset = open(25000);

  const Sample sample = read_tokens(*dataset, 1);

  for (std::size_t t = 0; t < 25000; ++t) {
    ASSERT_EQ(sample.inputs[t], static_cast<std::int32_t>(tokens[25000 + t]));
    ASSERT_EQ(sample.targets[t], static_cast<std::int32_t>(tokens[25001 + t]));
  }
}

TEST_F(DatasetTest, ReadsStoredWindowsAsTheyAre) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 30, 250);
  const auto dataset = open(9);
  std::vector<std::uint16_t> window(10);

  dynamic_cast<const TokenDataset&>(*dataset).read_stored(
      3, std::as_writable_bytes(std::span(window)));

  for (std::uint16_t t = 0; t < 10; ++t)
    EXPECT_EQ(window[t], 27 + t);
}

TEST_F(DatasetTest, LeavesOutTargetsByTheLossMaskAcrossShards) {
  // 30 tokens in shards of 11, 11 and 8; tokens divisible by 3 count.
  const std::vector<std::uint32_t> tokens = test::counting_tokens(30, 250);
  for (const std::uint64_t s : {0U, 1U, 2U}) {
    const std::size_t first = s * 11, count = s == 2 ? 8 : 11;
    std::vector<std::byte> mask(loss_mask_bytes(count));
    for (std::size_t i = 0; i < count; ++i)
      mask[i / 8] |= (first + i) % 3 == 0 ? std::byte{1} << (i % 8) : std::byte{0};
    ShardHeader header = test::token_header(count, 250);
    header.shard_index = s;
    header.shard_count = 3;
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
    test::write_token_shard(shard(s), header, {begin, begin + static_cast<std::ptrdiff_t>(count)},
                            {}, mask);
  }
  for (const std::int64_t context : {1, 4, 29}) {
    const auto dataset = open(context);
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      const Sample sample = read_tokens(*dataset, i);
      for (std::int64_t t = 0; t < context; ++t) {
        const std::int64_t at = i * context + t;
        EXPECT_EQ(sample.inputs[static_cast<std::size_t>(t)], at);
        EXPECT_EQ(sample.targets[static_cast<std::size_t>(t)],
                  (at + 1) % 3 == 0 ? at + 1 : masked_target);
      }
    }
  }

  EXPECT_NE(inspect_packed({{directory_.path()}}).text.find("counted      10 (33.3 %"),
            std::string::npos);
  for (const ShardReport& report : verify_dataset(directory_.path()))
    EXPECT_EQ(report.problem, "");
  test::flip_bit(shard(1), open_shard(shard(1)).mask_offset, 2);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(read_tokens(*open(4), 3)); }, shard(1),
      "(loss mask of tokens 0 to 10 of this shard, read for sample 3)");
  EXPECT_NE(verify_dataset(directory_.path())[1].problem.find("loss mask"), std::string::npos);
  test::write_token_shard(
      shard(2),
      [] {
        ShardHeader header = test::token_header(8, 250);
        header.shard_index = 2;
        header.shard_count = 3;
        return header;
      }(),
      test::counting_tokens(8, 250));
  expect_refused({.context = 4}, shard(2), "its loss mask is absent, but there in", shard(0));
}

// Document starts in windows of T = 4, for 21 tokens in shards of 8: 0, 3, 7 (across the border),
// 12, 13 and 16 (at a border).
TEST_F(DatasetTest, KnowsWhereDocumentsBeginAcrossShards) {
  const auto write = [&](std::uint64_t index, std::uint64_t count, bool continues,
                         const std::vector<std::uint64_t>& offsets) {
    ShardHeader header;
    header.shard_index = index;
    header.shard_count = 3;
    header.count = count;
    header.continues = continues;
    header.tokenizer = "bytes";
    header.vocabulary = 256;
    ShardWriter writer(shard(index), header);
    const std::vector<std::uint16_t> tokens(count, 7);
    writer.write(tokens.data(), count);
    writer.finish(offsets);
  };
  write(0, 8, false, {0, 3, 7, 8});
  write(1, 8, true, {0, 4, 5, 8});
  write(2, 5, false, {0, 5});
  const auto dataset = Dataset::open(directory_.path(), {.context = 4, .documents = true});
  const auto starts = [&](std::int64_t window) {
    std::vector<std::int32_t> result(5);
    dataset->document_starts(window, result);
    return result;
  };
  using Starts = std::vector<std::int32_t>;

  EXPECT_TRUE(dataset->layout().documents);
  EXPECT_DOUBLE_EQ(dataset->layout().mean_documents, 1 + 4 * 6 / 21.0);
  EXPECT_EQ(starts(0), (Starts{0, 0, 0, 3, 3}));
  EXPECT_EQ(starts(1), (Starts{0, 0, 0, 3, 3}));
  EXPECT_EQ(starts(2), (Starts{0, 0, 0, 0, 4}));
  EXPECT_EQ(starts(3), (Starts{0, 1, 1, 1, 4}));
  EXPECT_EQ(starts(4), (Starts{0, 0, 0, 0, 0}));
}

TEST_F(DatasetTest, ReadsImagesAndLabelsAcrossShards) {
  test::write_image_dataset(directory_.path(), 23, 10, 4, 3);
  const auto dataset =
      Dataset::open(directory_.path(), {.classes = 3, .image_size = 4, .channels = 1});

  ASSERT_EQ(dataset->size(), 23);
  EXPECT_EQ(dataset->layout().inputs, (Shape{4, 4, 1}));
  for (std::int64_t i = 0; i < 23; ++i) {
    std::vector<std::byte> pixels(16);
    std::int32_t label = -1;
    dataset->read(i, pixels, {&label, 1});
    EXPECT_EQ(label, i % 3);
    for (const std::byte pixel : pixels)
      EXPECT_EQ(static_cast<std::int64_t>(pixel), i);
  }
}

TEST_F(DatasetTest, FindsTheSplitBelowItsDirectory) {
  test::write_token_dataset(directory_.file("train"), test::counting_tokens(100, 250), 100, 250);
  test::write_token_dataset(directory_.file("validation"), test::counting_tokens(50, 250), 50, 250);

  EXPECT_EQ(Dataset::open(directory_.path(), {.context = 1, .split = "train"})->size(), 99);
  EXPECT_EQ(Dataset::open(directory_.path(), {.context = 1, .split = "validation"})->size(), 49);
  EXPECT_EQ(find_datasets(directory_.path()),
            (std::vector<std::string>{directory_.file("train"), directory_.file("validation")}));
}

TEST_F(DatasetTest, OpensOneShardByItsOwnPath) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 40, 250);

  const auto dataset = Dataset::open(shard(1), {.context = 1});

  EXPECT_EQ(read_tokens(*dataset, 0).inputs[0], 40);
}

TEST_F(DatasetTest, HasAFingerprintOfContentAndOrder) {
  const auto fingerprint_of = [](const std::vector<std::uint32_t>& tokens,
                                 std::size_t shard_tokens) {
    const test::TemporaryDirectory directory;
    test::write_token_dataset(directory.path(), tokens, shard_tokens, 250);
    return Dataset::open(directory.path(), {.context = 1})->fingerprint();
  };
  const std::vector<std::uint32_t> tokens = test::counting_tokens(100, 250);
  std::vector<std::uint32_t> changed = tokens;
  changed[99] = 0;

  EXPECT_EQ(fingerprint_of(tokens, 50), fingerprint_of(tokens, 50));
  EXPECT_NE(fingerprint_of(tokens, 50), fingerprint_of(changed, 50));
  EXPECT_NE(fingerprint_of(tokens, 50), fingerprint_of(tokens, 100));
}

TEST_F(DatasetTest, NamesAMissingPathAndADirectoryWithoutShards) {
  expect_error(
      ExitCode::data, [] { static_cast<void>(Dataset::open("/nowhere/at/all", {})); },
      "/nowhere/at/all", "no such file", "trireme data pack-text");
  expect_refused({.context = 1, .split = "train"}, directory_.path(), "holds no shards",
                 directory_.file("train"));
}

TEST_F(DatasetTest, NamesAMissingShard) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 25, 250);
  fs::remove(shard(3));
  expect_refused({.context = 1}, "3 of 4 shards", "shard_00003.h5 is missing");
  fs::remove(shard(1));
  expect_refused({.context = 1}, "shard_00001.h5 is missing");
}

TEST_F(DatasetTest, NamesRenamedAndForeignShards) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 50, 250);
  fs::rename(shard(0), directory_.file("x"));
  fs::rename(shard(1), shard(0));
  fs::rename(directory_.file("x"), shard(1));
  expect_refused({.context = 1}, shard(0), "is shard 1 by its content, but 0 by its name");

  fs::remove(shard(1));
  test::write_image_dataset(directory_.path(), 4, 2, 3, 2);
  test::write_token_dataset(directory_.file("other"), test::counting_tokens(100, 250), 50, 250);
  fs::rename(directory_.file("other/shard_00001.h5"), shard(1));
  expect_refused({.context = 1}, shard(1), "kind is tokens, but images in");
}

TEST_F(DatasetTest, NamesShardsThatDisagreeInDtypeOrSize) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 50, 250);
  test::write_token_dataset(directory_.file("wide"), test::counting_tokens(100, 250), 50, 250,
                            DType::u32);
  fs::rename(directory_.file("wide/shard_00001.h5"), shard(1));
  expect_refused({.context = 1}, shard(1), "dtype is uint32, but uint16");

  test::write_image_dataset(directory_.path(), 4, 2, 3, 2);
  test::write_image_dataset(directory_.file("large"), 4, 2, 5, 2);
  fs::rename(directory_.file("large/shard_00001.h5"), shard(1));
  expect_refused({}, shard(1), "image height is 5, but 3");
}

TEST_F(DatasetTest, NamesTheTokenOutsideTheVocabularyWhenItIsRead) {
  std::vector<std::uint32_t> tokens = test::counting_tokens(100, 250);
  tokens[70] = 255;
  test::write_token_dataset(directory_.path(), tokens, 50, 250);
  const auto dataset = open(9);

  EXPECT_NO_THROW(read_tokens(*dataset, 6));
  expect_error(
      ExitCode::data, [&] { read_tokens(*dataset, 7); }, shard(1), "token 20 has id 255",
      "vocabulary of 250");
}

TEST_F(DatasetTest, LabelsOfLargeImagesAreReadAndCheckedWithThem) {
  constexpr std::int64_t side = 384, count = 5;  // 147 kB each
  test::write_image_dataset(directory_.path(), count, 3, side, 3);
  std::vector<std::byte> pixels(side * side);
  std::int32_t label = -1;
  const auto read = [&](std::int64_t index) {
    Dataset::open(directory_.path(), {})->read(index, pixels, {&label, 1});
    return label;
  };
  for (std::int64_t i = 0; i < count; ++i)
    EXPECT_EQ(read(i), i % 3);

  const std::uint64_t last = open_shard(shard(0)).index_offset + 2 * sizeof(std::int32_t);
  test::flip_bit(shard(0), last, 1);
  EXPECT_EQ(read(3), 0) << "of the other shard";
  expect_error(
      ExitCode::data, [&] { read(2); }, shard(0), "labels 0 to 2", "read for sample 2");
  test::remove_block_checksums(shard(0));
  test::remove_block_checksums(shard(1));
  EXPECT_EQ(read(2), 0);
  test::flip_bit(shard(0), last, 7);
  expect_error(
      ExitCode::data, [&] { read(2); }, shard(0), "image 2 has label 128", "3 classes");
}

TEST_F(DatasetTest, NamesTheLabelOutsideTheClasses) {
  ShardHeader header = test::image_header(2, 2, 3);
  ShardWriter writer(shard(0), header);
  writer.write("abcdefgh", 2);
  writer.finish(std::vector<std::int32_t>{2, 3});

  expect_refused({}, shard(0), "image 1 has label 3", "3 classes");
}

TEST_F(DatasetTest, NamesTooFewTokensForOneSample) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(10, 250), 10, 250);
  EXPECT_EQ(open(9)->size(), 1);
  expect_refused({.context = 10}, "10 tokens", "context 10 needs 11");
}

TEST_F(DatasetTest, NamesWhatDoesNotFitTheModel) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 100, 250);
  expect_refused({.context = 4, .vocabulary = 128}, "vocabulary of 250", "model.vocabulary = 128",
                 "at least 250");
  expect_refused({.classes = 10}, "holds tokens", "data.path");
  EXPECT_NO_THROW(
      static_cast<void>(Dataset::open(directory_.path(), {.context = 4, .vocabulary = 256})));

  fs::remove(shard(0));
  test::write_image_dataset(directory_.path(), 4, 4, 5, 3);
  expect_refused({.context = 4, .vocabulary = 256}, "holds images");
  expect_refused({.classes = 2}, "3 classes", "model.classes = 2");
  expect_refused({.image_size = 28}, "5 x 5", "model.image_size = 28", "--resize 28");
  expect_refused({.channels = 3}, "1 channels", "model.channels = 3");
}

TEST_F(DatasetTest, NamesAFileThatIsCutWhileInUse) {
  test::write_token_dataset(directory_.path(), test::counting_tokens(100, 250), 100, 250);
  const auto dataset = open(10);
  read_tokens(*dataset, 0);  // verifies the only block
  fs::resize_file(shard(0), open_shard(shard(0)).data_offset + 50);

  EXPECT_NO_THROW(read_tokens(*dataset, 0));
  expect_error(
      ExitCode::data, [&] { read_tokens(*dataset, 5); }, shard(0), "ends at byte");
}

// Tokens 0, 1, 2, ... over and over.
class Counting final : public Dataset {
 public:
  static constexpr std::int64_t context = 1000;
  [[nodiscard]] DataKind kind() const override { return DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return 4; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return 1; }
  void read(std::int64_t /*index*/, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    auto* const tokens = reinterpret_cast<std::int32_t*>(inputs.data());
    for (std::size_t i = 0; i < targets.size(); ++i)
      tokens[i] = targets[i] = static_cast<std::int32_t>(i % 50);
  }

 private:
  SampleLayout layout_ = token_samples(context);
};

Sample masked(const MaskOptions& options, std::int64_t epoch, std::int64_t index,
              std::size_t count = Counting::context) {
  const MaskedTokens dataset(std::make_unique<Counting>(), options);
  Sample sample{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count)};
  dataset.read_in_epoch(epoch, index, std::as_writable_bytes(std::span(sample.inputs)),
                        sample.targets);
  return sample;
}

TEST(MaskedTokens, MaskMostOfTheShareAndPredictOnlyIt) {
  const Sample sample = masked({.share = 0.15, .mask = 50, .vocabulary = 51, .seed = 3}, 0, 1);

  int asked = 0, hidden = 0, kept = 0;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const auto token = static_cast<std::int32_t>(i % 50);
    if (sample.targets[i] < 0) {
      EXPECT_EQ(sample.inputs[i], token);
      continue;
    }
    EXPECT_EQ(sample.targets[i], token);
    ++asked;
    hidden += sample.inputs[i] == 50 ? 1 : 0;
    kept += sample.inputs[i] == token ? 1 : 0;
  }
  EXPECT_NEAR(asked, 150, 40);
  EXPECT_NEAR(hidden, 0.8 * asked, 25);
  EXPECT_NEAR(kept, 0.1 * asked, 15);
}

TEST(MaskedTokens, DependOnSeedEpochAndSample) {
  const MaskOptions options{.share = 0.15, .mask = 50, .vocabulary = 51, .seed = 3};
  MaskOptions other = options, fixed = options;
  other.seed = 4;
  fixed.every_epoch = false;
  const auto inputs = masked(options, 0, 1).inputs;

  EXPECT_EQ(masked(options, 0, 1).inputs, inputs);
  EXPECT_NE(masked(options, 1, 1).inputs, inputs);
  EXPECT_NE(masked(options, 0, 2).inputs, inputs);
  EXPECT_NE(masked(other, 0, 1).inputs, inputs);
  EXPECT_EQ(masked(fixed, 1, 1).inputs, inputs);
}

TEST(MaskedTokens, PredictAtLeastOne) {
  for (std::int64_t index = 0; index < 40; ++index) {
    const Sample sample =
        masked({.share = 0.001, .mask = 50, .vocabulary = 51, .seed = 3}, 0, index, 5);
    EXPECT_GE(std::ranges::count_if(sample.targets, [](auto target) { return target >= 0; }), 1);
  }
}

}  // namespace
}  // namespace trireme
