// SPDX-License-Identifier: Apache-2.0
#include "data/megatron/megatron_dataset.h"

#include <gmock/gmock.h>

#include <chrono>
#include <numeric>
#include <optional>

#include "data/inspect.h"
#include "data/sets/id_names.h"
#include "data/verify.h"
#include "runtime/base/clock.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_megatron.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::megatron_data;
using test::megatron_index;
using test::write_text;

class Megatron : public testing::Test {
 protected:
  void write(const std::string& index, const std::string& data) const {
    write_text(prefix_ + ".idx", index);
    write_text(prefix_ + ".bin", data);
  }
  // 0, 1, ..., in sequences of 5, 0 and the rest.
  template <typename Token>
  void write_counting(std::int64_t count, std::uint8_t type) const {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    write(megatron_index({5, 0, static_cast<std::int32_t>(count) - 5}, {0, 2, 3}, type),
          megatron_data<Token>(tokens));
  }
  void expect_refused(const std::string& index, const std::string& data,
                      const std::string& part) const {
    write(index, data);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(Dataset::open(prefix_, {.context = 2})); },
        prefix_ + ".idx", part);
  }
  [[nodiscard]] std::vector<std::int32_t> window(const Dataset& data, std::int64_t index) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.layout().inputs.count()));
    std::vector<std::int32_t> targets(tokens.size());
    data.read(index, std::as_writable_bytes(std::span(tokens)), targets);
    tokens.push_back(targets.back());
    for (std::size_t i = 0; i < targets.size(); ++i)
      EXPECT_EQ(tokens[i + 1], targets[i]);
    return tokens;
  }

  test::TemporaryDirectory directory_;
  std::string prefix_ = directory_.file("corpus_text_document");
};

TEST_F(Megatron, ReadsWindowsOfEveryIntegerType) {
  const auto expect_windows = [&] {
    for (const std::string& path : {prefix_, prefix_ + ".idx"}) {
      const auto data = Dataset::open(path, {.context = 7, .vocabulary = 120});
      EXPECT_EQ(data->size(), 14);
      EXPECT_EQ(window(*data, 0), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
      EXPECT_EQ(window(*data, 13), (std::vector<std::int32_t>{91, 92, 93, 94, 95, 96, 97, 98}));
      EXPECT_TRUE(data->shards().empty());
    }
  };
  write_counting<std::uint8_t>(100, 1);
  expect_windows();
  write_counting<std::int16_t>(100, 3);
  expect_windows();
  write_counting<std::int32_t>(100, 4);
  expect_windows();
  write_counting<std::int64_t>(100, 5);
  expect_windows();
  write_counting<std::uint16_t>(100, 8);
  expect_windows();
}

TEST_F(Megatron, ReadsWindowsLongerThanItsBuffer) {
  write_counting<std::int32_t>(30'001, 4);
  const auto data = Dataset::open(prefix_, {.context = 10'000});
  ASSERT_EQ(data->size(), 3);
  const std::vector<std::int32_t> last = window(*data, 2);
  for (std::size_t i = 0; i < last.size(); ++i)
    ASSERT_EQ(last[i], static_cast<std::int32_t>(20'000 + i));
}

TEST_F(Megatron, RefusesIdsOutsideTheVocabularyOfTheModel) {
  write(megatron_index({6}, {0, 1}, 4), megatron_data<std::int32_t>({1, 2, 3, 4, 300, -1}));
  const auto small = Dataset::open(prefix_, {.context = 2, .vocabulary = 256});
  EXPECT_EQ(window(*small, 0).back(), 3);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(window(*small, 1)); }, prefix_ + ".bin",
      "token 4 has id 300");
  const auto any = Dataset::open(prefix_, {.context = 5});
  expect_error(
      ExitCode::data, [&] { static_cast<void>(window(*any, 0)); }, "token 5 has id -1");
}

TEST_F(Megatron, IsVerifiedAsFarAsItCanBeAndShown) {
  constexpr std::int32_t count = 30'001;
  write_counting<std::int32_t>(count, 4);
  std::uint64_t read = 0;
  const auto verify = [&] {
    read = 0;
    return verify_megatron({{prefix_}},
                           [&](const char*, std::uint64_t) {
                             return [&](std::uint64_t bytes) { read += bytes; };
                           })
        .at(0);
  };
  const ShardReport good = verify();
  EXPECT_EQ(good.problem, "");
  EXPECT_EQ(good.path, prefix_ + ".bin");
  EXPECT_EQ(good.bytes, count * sizeof(std::int32_t));
  EXPECT_EQ(read, good.bytes);
  EXPECT_NE(inspect_megatron({.names = {prefix_}, .preview = 5}).text.find("0 1 2 3 4\n"),
            std::string::npos);

  test::flip_bit(prefix_ + ".bin", (count - 1) * sizeof(std::int32_t) + 3, 7);
  EXPECT_NE(verify().problem.find("token 30000 has id -"), std::string::npos);
  write_text(prefix_ + ".bin", "cut");
  EXPECT_NE(verify().problem.find("describes 120004 bytes"), std::string::npos);
}

TEST_F(Megatron, IsRefusedIfItsTokensChangeDuringTheRun) {
  write_counting<std::uint16_t>(10, 8);
  const auto data = Dataset::open(prefix_, {.context = 4});
  const auto read = [&] { static_cast<void>(window(*data, 0)); };
  read();

  test::flip_bit(prefix_ + ".bin", 0);
  std::optional<Error> error;
  const auto start = std::chrono::steady_clock::now();
  while (!error && seconds_since(start) < 10)
    error = test::error_of(read);

  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr(prefix_ + ".bin: has changed since"));
}

TEST_F(Megatron, KnowsWhereItsDocumentsBegin) {
  // Documents of sequences: {2, 1}, none, {0}, {3, 2}, {4} and nothing at the end.
  write(megatron_index({2, 1, 0, 3, 2, 4}, {0, 2, 2, 3, 5, 6, 6}, 8),
        megatron_data<std::uint16_t>(std::vector<std::int64_t>(12, 1)));
  const auto data = Dataset::open(prefix_, {.context = 11, .documents = true});
  std::vector<std::int32_t> starts(12);

  data->document_starts(0, starts);

  EXPECT_EQ(starts, (std::vector<std::int32_t>{0, 0, 0, 3, 3, 3, 3, 3, 8, 8, 8, 8}));
  EXPECT_DOUBLE_EQ(data->layout().mean_documents, 1 + 11 * 3 / 12.0);
}

TEST_F(Megatron, HasAFingerprintOfBothFiles) {
  const auto fingerprint = [&] { return Dataset::open(prefix_, {.context = 2})->fingerprint(); };
  write(megatron_index({4, 2}, {0, 1, 2}, 8), megatron_data<std::uint16_t>({1, 2, 3, 4, 5, 6}));
  const std::uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  write(megatron_index({4, 2}, {0, 1, 2}, 8), megatron_data<std::uint16_t>({1, 2, 3, 4, 5, 7}));
  const std::uint64_t second = fingerprint();
  EXPECT_NE(second, first);
  write(megatron_index({3, 3}, {0, 1, 2}, 8), megatron_data<std::uint16_t>({1, 2, 3, 4, 5, 7}));
  EXPECT_NE(fingerprint(), second);
}

TEST_F(Megatron, RefusesIndicesThatDoNotFitTheirFiles) {
  const std::string data = megatron_data<std::uint16_t>({1, 2, 3, 4, 5, 6});
  const std::string good = megatron_index({4, 2}, {0, 1, 2}, 8);
  const auto with = [&](std::size_t at, auto value) {
    std::string bytes = good, raw;
    test::append_raw(raw, value);
    return bytes.replace(at, raw.size(), raw);
  };
  expect_refused("", data, "too few");
  expect_refused("MMIDIDY" + good.substr(7), data, "MMIDIDX");
  expect_refused(with(9, std::uint64_t{2}), data, "version 2");
  expect_refused(with(17, std::uint8_t{6}), data, "type 6");
  expect_refused(with(18, std::uint64_t{3}), data, "3 sequences");
  expect_refused(with(18, ~std::uint64_t{0}), data, "sequences");
  expect_refused(with(26, ~std::uint64_t{0} / 8), data, "document bounds");
  expect_refused(good.substr(0, good.size() - 1), data, "do not match");
  expect_refused(with(34, std::int32_t{-4}), data, "sequence 0 has -4");
  expect_refused(with(34, std::int32_t{5}), data, "sequence 1 at byte 8");
  expect_refused(with(42, std::int64_t{2}), data, "sequence 0 at byte 2");
  expect_refused(with(58, std::int64_t{1}), data, "bound 0");
  expect_refused(with(66, std::int64_t{3}), data, "bound 1");
  expect_refused(with(74, std::int64_t{1}), data, "sequence 1 of 2");
  expect_refused(good, data + "x", "13");
  expect_refused(good, data.substr(2), "10");
}

TEST_F(Megatron, NeedsTheModelToReadTokensAndEnoughOfThem) {
  write_counting<std::uint16_t>(100, 8);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(Dataset::open(prefix_, {.classes = 10})); },
      "holds tokens");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(Dataset::open(prefix_, {.context = 100})); },
      "100 tokens", "needs 101");
}

TEST_F(Megatron, DescribesItsTokensButNotTheirTokenizer) {
  write_counting<std::uint16_t>(100, 8);
  const std::string text = inspect_megatron({{prefix_}}).text;
  EXPECT_NE(text.find("tokens       100"), std::string::npos) << text;
  EXPECT_NE(text.find("documents    2"), std::string::npos) << text;
  EXPECT_EQ(id_names_at(prefix_, "train").tokenizer, "");
}

TEST_F(Megatron, ABinFileWithoutIndexIsOneDocumentOfUint16) {
  const std::string path = directory_.file("train.bin");
  write_text(path, megatron_data<std::uint16_t>({0, 1, 2, 3, 4, 50000, 6}));
  const auto data = Dataset::open(path, {.context = 3, .vocabulary = 50257});
  ASSERT_EQ(data->size(), 2);
  EXPECT_THAT(window(*data, 1), testing::ElementsAre(3, 4, 50000, 6));
  const auto small = Dataset::open(path, {.context = 3, .vocabulary = 50000});
  expect_error(
      ExitCode::data, [&] { static_cast<void>(window(*small, 1)); }, path, "id 50000",
      "model.vocabulary");
  EXPECT_THAT(
      inspect_megatron({.names = {path}, .preview = 4}).text,
      testing::AllOf(testing::HasSubstr("nanoGPT (its meta.pkl"), testing::HasSubstr("0 1 2 3\n")));
  expect_error(
      ExitCode::config,
      [&] { static_cast<void>(Dataset::open(path, {.context = 3, .documents = true})); }, path,
      "data.documents", "joined");

  // Beside an index it is Megatron-LM's.
  write_counting<std::int32_t>(20, 4);
  EXPECT_THAT(window(*Dataset::open(prefix_ + ".bin", {.context = 3}), 2),
              testing::ElementsAre(6, 7, 8, 9));
}

TEST_F(Megatron, ABinFileOfUint32IsKnownByItsContentOrItsKey) {
  const std::string path = directory_.file("train.bin");
  std::vector<std::int64_t> ids(64);
  std::iota(ids.begin(), ids.end(), 128000 - 60);
  write_text(path, megatron_data<std::uint32_t>(ids));
  const auto wide = Dataset::open(path, {.context = 3, .vocabulary = 128256});
  ASSERT_EQ(wide->size(), 21);
  EXPECT_THAT(window(*wide, 1), testing::ElementsAre(127943, 127944, 127945, 127946));
  EXPECT_EQ(Dataset::open(path, {.context = 3, .token_bytes = 2})->size(), 42);
  EXPECT_THAT(inspect_megatron({{path}}).text, testing::HasSubstr("4 bytes each"));

  write_text(path, megatron_data<std::uint16_t>(std::vector<std::int64_t>(64, 7)));
  expect_error(
      ExitCode::data,
      [&] { static_cast<void>(Dataset::open(path, {.context = 3, .vocabulary = 65537})); }, path,
      "model.vocabulary: 65537", "data.token_bytes: 4");
  const DatasetOptions given{.context = 3, .vocabulary = 65537, .token_bytes = 4};
  EXPECT_EQ(Dataset::open(path, given)->size(), 10);
}

TEST_F(Megatron, BinFilesThatAreNoUint16TokensAreRefused) {
  const std::string path = directory_.file("train.bin");
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    write_text(path, bytes);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(Dataset::open(path, {.context = 2})); }, path,
        part);
  };
  refused("12345", "no multiple of 2");
  refused("", "needs 3");
  refused("1234", "2 tokens");
  refused(megatron_data<std::int32_t>({20240520, 1, 100}), "header of llm.c");
}

}  // namespace
}  // namespace trireme
