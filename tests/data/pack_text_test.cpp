// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/pack/staged_directory.h"
#include "data/shard/data_file.h"
#include "data/shard/shard_set.h"
#include "data/verify.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::write_text;

// A data set's content, read shard by shard.
struct Contents {
  std::string text;
  std::vector<std::uint64_t> documents;  // starts in the whole stream
  std::vector<bool> continues;           // per shard
};

Contents contents_of(const std::string& directory) {
  for (const ShardReport& report : verify_dataset(directory))
    EXPECT_EQ(report.problem, "");
  const ShardSet set(list_shards(directory, ""));
  Contents all;
  for (std::size_t s = 0; s < set.shards().size(); ++s) {
    const Shard& shard = set.shards()[s];
    std::vector<std::uint16_t> tokens(shard.header.count);
    set.file(s).read(shard.data_offset, std::as_writable_bytes(std::span(tokens)));
    std::vector<std::uint64_t> offsets(shard.header.documents + 1);
    set.file(s).read(shard.index_offset, std::as_writable_bytes(std::span(offsets)));
    for (std::size_t i = shard.header.continues ? 1 : 0; i + 1 < offsets.size(); ++i) {
      all.documents.push_back(set.start_of(s) + offsets[i]);
    }
    all.continues.push_back(shard.header.continues);
    for (const std::uint16_t token : tokens)
      all.text.push_back(static_cast<char>(token));
  }
  return all;
}

class PackText : public testing::Test {
 protected:
  [[nodiscard]] std::string input(const std::string& name, const std::string& text) const {
    const std::string path = directory_.file(name);
    fs::create_directories(fs::path(path).parent_path());
    write_text(path, text);
    return path;
  }
  [[nodiscard]] PackTextOptions options(std::vector<std::string> inputs) const {
    PackTextOptions it;
    it.inputs = std::move(inputs);
    it.output = out_;
    return it;
  }
  // Files beside the inputs: a failed pack must leave none.
  void expect_no_output() const {
    EXPECT_FALSE(fs::exists(out_));
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
    }
  }

  test::TemporaryDirectory directory_;
  std::string out_ = directory_.file("out");
};

TEST_F(PackText, KeepsBytesAndDocumentsOfSeveralFiles) {
  const std::string binary("\0\xff\x80z", 4);
  const auto packed =
      pack_text(options({input("a", "first"), input("b", binary), input("c", "third\n")}));

  const Contents all = contents_of(out_);

  EXPECT_EQ(all.text, "first" + binary + "third\n");
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 5, 9}));
  ASSERT_EQ(packed.splits.size(), 1U);
  EXPECT_EQ(packed.splits[0].samples, 15U);
  EXPECT_EQ(packed.splits[0].documents, 3U);
}

TEST_F(PackText, CutsShardsAtTheirSizeAndMarksContinuedDocuments) {
  PackTextOptions with =
      options({input("a", "0123456789"), input("b", "abcde"), input("c", "XYZ")});
  with.shard_tokens = 5;
  static_cast<void>(pack_text(with));

  const Contents all = contents_of(out_);

  EXPECT_EQ(all.text, "0123456789abcdeXYZ");
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 10, 15}));
  EXPECT_EQ(all.continues, (std::vector<bool>{false, true, false, false}));
}

TEST_F(PackText, SplitsTheEndOffForValidation) {
  PackTextOptions with =
      options({input("a", std::string(70, 'a')), input("b", std::string(30, 'b'))});
  with.validation = 0.2;
  static_cast<void>(pack_text(with));

  const Contents train = contents_of(out_ + "/train"),
                 validation = contents_of(out_ + "/validation");

  EXPECT_EQ(train.text, std::string(70, 'a') + std::string(10, 'b'));
  EXPECT_EQ(train.documents, (std::vector<std::uint64_t>{0, 70}));
  EXPECT_EQ(validation.text, std::string(20, 'b'));
  EXPECT_EQ(validation.continues, (std::vector<bool>{true}));
}

TEST_F(PackText, EndsDocumentsAtTheSeparatorWhereverBlocksEnd) {
  // Larger than a read block, with separators across its border.
  std::string text;
  std::vector<std::uint64_t> expected = {0};
  while (text.size() < (3U << 20)) {
    text += std::string(text.size() % 1000 + 1, 'x') + "--=--";
    expected.push_back(text.size());
  }
  expected.pop_back();  // the last separator ends the text
  PackTextOptions with = options({input("a", text)});
  with.separator = "--=--";
  with.shard_tokens = 1 << 20;
  static_cast<void>(pack_text(with));

  const Contents all = contents_of(out_);

  EXPECT_EQ(all.text, text);
  EXPECT_EQ(all.documents, expected);
}

TEST_F(PackText, FindsSeparatorsThatOverlapThemselves) {
  PackTextOptions with = options({input("a", "aabaabaaab|")});
  with.separator = "aab";
  static_cast<void>(pack_text(with));
  EXPECT_EQ(contents_of(out_).documents, (std::vector<std::uint64_t>{0, 3, 6, 10}));
}

TEST_F(PackText, WalksDirectoriesInOrderAndLeavesHiddenAndEmptyFilesOut) {
  static_cast<void>(input("tree/b/2", "two"));
  static_cast<void>(input("tree/a/1", "one"));
  static_cast<void>(input("tree/c", "three"));
  static_cast<void>(input("tree/.git/x", "hidden"));
  static_cast<void>(input("tree/empty", ""));
  static_cast<void>(pack_text(options({directory_.file("tree")})));

  const Contents all = contents_of(out_);

  EXPECT_EQ(all.text, "onetwothree");
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 3, 6}));
}

TEST_F(PackText, WritesTheWideTypeWhenAsked) {
  PackTextOptions with = options({input("a", "hello")});
  with.dtype = DType::u32;
  static_cast<void>(pack_text(with));
  EXPECT_EQ(open_shard(out_ + "/shard_00000.h5").header.dtype, DType::u32);
}

TEST_F(PackText, RefusesToOverwriteWithoutForce) {
  static_cast<void>(pack_text(options({input("a", "old text")})));
  PackTextOptions with = options({input("b", "new text")});
  expect_error(
      ExitCode::config, [&] { static_cast<void>(pack_text(with)); }, out_, "--force");
  EXPECT_EQ(contents_of(out_).text, "old text");

  with.force = true;
  static_cast<void>(pack_text(with));

  EXPECT_EQ(contents_of(out_).text, "new text");
}

TEST_F(PackText, NeverReplacesADirectoryWithOtherFiles) {
  static_cast<void>(pack_text(options({input("a", "old text")})));
  write_text(out_ + "/thesis.tex", "precious");
  PackTextOptions with = options({input("b", "new text")});
  with.force = true;

  expect_error(
      ExitCode::config, [&] { static_cast<void>(pack_text(with)); }, "thesis.tex");

  EXPECT_EQ(test::read_text(out_ + "/thesis.tex"), "precious");
  EXPECT_TRUE(fs::exists(out_ + "/shard_00000.h5"));
}

TEST_F(PackText, DoesNotReplaceWhatAppearedWhileItWorked) {
  StagedDirectory stage(out_, false);
  write_text(stage.path() + "/shard_00000.h5", "new");
  fs::create_directory(out_);
  write_text(out_ + "/shard_00000.h5", "old");

  expect_error(
      ExitCode::config, [&] { stage.commit(); }, out_, "in the meantime");

  EXPECT_EQ(test::read_text(out_ + "/shard_00000.h5"), "old");
}

TEST_F(PackText, AddsASplitBesideAnother) {
  PackTextOptions with = options({input("a", "train text")});
  with.split = "train";
  static_cast<void>(pack_text(with));
  with.inputs = {input("b", "validation text")};
  with.split = "validation";
  static_cast<void>(pack_text(with));

  EXPECT_EQ(contents_of(out_ + "/train").text, "train text");
  EXPECT_EQ(contents_of(out_ + "/validation").text, "validation text");
}

TEST_F(PackText, NamesMissingAndEmptyInput) {
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(options({directory_.file("none")}))); },
      directory_.file("none"), "no such file");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(options({input("a", "")}))); },
      "every input is empty");
  expect_no_output();
}

TEST_F(PackText, NamesFilesThatHoldNoTextByTheirContent) {
  using namespace std::string_literals;
  const auto in_utf16 = [](std::string_view text, int zero_at) {
    std::string wide;
    for (const char letter : text)
      wide += zero_at == 0 ? "\0"s + letter : letter + "\0"s;
    return wide;
  };
  const std::string long_text = "a text without a mark, in letters of two bytes\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"BZh91AY&SY\x01\x02"s, "bunzip2"},
      {"\xfd"
       "7zXZ\0\0\4"s,
       "unxz"},
      {"PK\x03\x04\x14\0\0\0"s, "unzip"},
      {"PAR1\x15\x04"s, "parquet_to_jsonl.py"},
      {"%PDF-1.4\n1 0 obj\n", "pdftotext"},
      {"\xff\xfe" + in_utf16("hi", 1), "iconv -f UTF-16"},
      {in_utf16(long_text, 0), "iconv -f UTF-16"},
      {in_utf16(long_text, 1), "iconv -f UTF-16"},
      {"a"s + std::string(256, '\0') + "ustar", "tar -xf"},
  };
  for (const auto& [bytes, fix] : cases) {
    const std::string file = input("a.txt", bytes);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pack_text(options({file}))); }, file, fix);
  }
  expect_no_output();
  for (const std::string& text : {"GRIB is a format\n"s, "BZhang\n"s, "PAR1 4\n"s, "\xfe\xfa\0\1"s})
    EXPECT_NO_THROW(static_cast<void>(pack_text([&] {
      PackTextOptions with = options({input("a.txt", text)});
      with.force = true;
      return with;
    }())));
}

TEST_F(PackText, RefusesOptionsThatCannotBeHonoured) {
  const std::string text = input("tree/a", "text");
  const auto refused = [&](auto&& change, auto... parts) {
    PackTextOptions with = options({text});
    change(with);
    expect_error(
        ExitCode::config, [&] { static_cast<void>(pack_text(with)); }, std::string(parts)...);
  };
  refused([](auto& it) { it.validation = 1; }, "--validation: 1");
  refused([](auto& it) { it.validation = -0.1; }, "--validation: -0.1");
  refused([](auto& it) { it.split = "a/b"; }, "--split: 'a/b'");
  refused([](auto& it) { it.split = "train", it.validation = 0.5; }, "exclude each other");
  refused([](auto& it) { it.shard_tokens = 0; }, "--shard-tokens: 0");
  refused([](auto& it) { it.output = ""; }, "--out");
  refused(
      [&](auto& it) {
        it.inputs = {directory_.file("tree")}, it.output = directory_.file("tree/out");
      },
      "inside the input");
  refused([&](auto& it) { it.output = text; }, "is a file");
  refused([](auto& it) { it.output = "/proc/none/out"; }, "/proc/none/out",
          "cannot make the output directory");
  expect_no_output();
}

TEST_F(PackText, CannotSplitASingleByte) {
  PackTextOptions with = options({input("a", "x")});
  with.validation = 0.5;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, "1 bytes cannot be split");
  expect_no_output();
}

TEST(Unescape, UnderstandsItsEscapesAndRefusesOthers) {
  EXPECT_EQ(unescape("a\\n\\t\\\\\\x41\\0b"), std::string("a\n\t\\A\0b", 7));
  EXPECT_EQ(unescape("<|endoftext|>"), "<|endoftext|>");
  for (const char* const bad : {"\\q", "\\x4", "\\xzz", "end\\"}) {
    expect_error(
        ExitCode::config, [&] { static_cast<void>(unescape(bad)); }, "--document-separator", bad);
  }
}

}  // namespace
}  // namespace trireme
