// SPDX-License-Identifier: Apache-2.0
// Texts with targets: packed from JSON lines, read back as padded samples.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "data/pack/pack_text.h"
#include "data/sets/dataset.h"
#include "data/verify.h"
#include "tests/data/make_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::write_text;
using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

struct Sample {
  Ids inputs, targets, starts;

  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (const std::int32_t bits : targets)
      all.push_back(std::bit_cast<float>(bits));
    return all;
  }
};

class LabelledText : public testing::Test {
 protected:
  [[nodiscard]] PackTextOptions options(const std::string& lines, TextTargets targets,
                                        const std::string& name = "in") const {
    const std::string path = directory_.file(name + ".jsonl");
    write_text(path, lines);
    return {.inputs = {path},
            .output = directory_.file(name + "_packed"),
            .targets = targets,
            .longest = 6};
  }
  [[nodiscard]] static std::unique_ptr<Dataset> open(const PackTextOptions& packed,
                                                     std::int64_t width, std::int64_t context = 8) {
    for (const ShardReport& report : verify_dataset(packed.output))
      EXPECT_EQ(report.problem, "");
    return Dataset::open(packed.output, {.context = context,
                                         .vocabulary = 300,
                                         .text_targets = packed.targets,
                                         .target_width = width,
                                         .pad_token = 7});
  }
  [[nodiscard]] static Sample sample(const Dataset& data, std::int64_t index) {
    const SampleLayout& layout = data.layout();
    const auto length = static_cast<std::size_t>(layout.inputs.count());
    Sample it{Ids(length), Ids(static_cast<std::size_t>(layout.targets.count())), Ids(length + 1)};
    data.read(index, std::as_writable_bytes(std::span(it.inputs)), it.targets);
    data.document_starts(index, it.starts);
    return it;
  }
  template <typename... Parts>
  void expect_refused(const std::string& lines, TextTargets targets, const Parts&... parts) const {
    const PackTextOptions bad = options(lines, targets, "bad");
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pack_text(bad)); }, parts...);
  }

  test::TemporaryDirectory directory_;
};

TEST_F(LabelledText, HasClassesInAlphabeticalOrderAndPaddingAsAnotherDocument) {
  const PackTextOptions packed = options(R"({"text": "ab", "label": "zebra"}
{"text": "cdefghij", "label": "ant"}

{"label": "zebra", "text": ""})"
                                         "\n{\"text\": \"k\", \"label\": \"mouse\"}",
                                         TextTargets::label);
  PackTextOptions some = packed;
  some.skip_bad = true;

  const PackedText result = pack_text(some);
  const auto data = open(packed, 4);

  EXPECT_EQ(result.cut, 1U);
  EXPECT_EQ(result.skipped.size(), 1U);  // the empty text
  ASSERT_EQ(data->size(), 3);
  EXPECT_THAT(data->id_names().classes, ElementsAre("ant", "mouse", "zebra"));
  EXPECT_EQ(sample(*data, 0).inputs, Ids({'a', 'b', 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(sample(*data, 0).starts, Ids({0, 0, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(sample(*data, 1).inputs, Ids({'c', 'd', 'e', 'f', 'g', 'h', 7, 7}));
  EXPECT_EQ(sample(*data, 0).targets, Ids({2}));
  EXPECT_EQ(sample(*data, 1).targets, Ids({0}));
  EXPECT_EQ(sample(*data, 2).targets, Ids({1}));
}

TEST_F(LabelledText, EndsAtItsLastTokenThatIsNotPaddingWhereThatIsPooled) {
  const PackTextOptions packed = options(
      "{\"text\": \"a\\u0007b\\u0007\\u0007\", \"label\": \"x\"}\n"
      "{\"text\": \"\\u0007\\u0007\", \"label\": \"y\"}",
      TextTargets::label);
  static_cast<void>(pack_text(packed));
  DatasetOptions wanted{.context = 8,
                        .vocabulary = 300,
                        .text_targets = TextTargets::label,
                        .target_width = 4,
                        .pad_token = 7};
  EXPECT_EQ(sample(*Dataset::open(packed.output, wanted), 0).starts,
            Ids({0, 0, 0, 0, 0, 5, 5, 5, 5}));
  wanted.pools_last = true;
  const auto pooled = Dataset::open(packed.output, wanted);
  EXPECT_EQ(sample(*pooled, 0).starts, Ids({0, 0, 0, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(sample(*pooled, 0).inputs, Ids({'a', 7, 'b', 7, 7, 7, 7, 7}));
  EXPECT_EQ(sample(*pooled, 1).starts, Ids({0, 1, 1, 1, 1, 1, 1, 1, 1}));
  wanted.pools_last = false;
  wanted.skips_padding = true;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(Dataset::open(packed.output, wanted)); },
      "token 1 of text 0 is 7");
}

TEST_F(LabelledText, IsSplitIntoShardsAndSetsBetweenTexts) {
  PackTextOptions packed = options(
      R"({"text": "abc", "label": [1.5, null]}
{"text": "def", "label": [2, -3]}
{"text": "g", "label": [0, 4]}
{"text": "h", "label": [8, 9]})",
      TextTargets::values);
  packed.shard_tokens = 4;
  packed.validation = 0.25;

  const PackedText result = pack_text(packed);
  packed.output += "/train";
  const auto data = open(packed, 2);

  ASSERT_EQ(result.splits.size(), 2U);
  EXPECT_EQ(result.splits[0].shards, 2U);
  EXPECT_EQ(result.splits[1].documents, 1U);
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(sample(*data, 0).values()[0], 1.5F);
  EXPECT_TRUE(std::isnan(sample(*data, 0).values()[1]));
  EXPECT_THAT(sample(*data, 2).values(), ElementsAre(0, 4));
  EXPECT_EQ(sample(*data, 2).inputs[0], 'g');
}

TEST_F(LabelledText, HasOneNumberForEachLabel) {
  const PackTextOptions packed = options(R"({"text": "a", "label": ["new", "old"]}
{"text": "b", "label": []}
{"text": "c", "label": ["big"]})",
                                         TextTargets::labels);

  static_cast<void>(pack_text(packed));
  const auto data = open(packed, 3);

  EXPECT_THAT(data->id_names().classes, ElementsAre("big", "new", "old"));
  EXPECT_THAT(sample(*data, 0).values(), ElementsAre(0, 1, 1));
  EXPECT_THAT(sample(*data, 1).values(), ElementsAre(0, 0, 0));
  EXPECT_THAT(sample(*data, 2).values(), ElementsAre(1, 0, 0));
}

TEST_F(LabelledText, GivesTheClassOfAWordToItsFirstTokenInTheFrameOfTheTokenizer) {
  test::TokenizerText tokenizer;
  tokenizer.added = {{.text = "[CLS]"}, {.text = "[SEP]"}};
  tokenizer.post_processor = R"({"type":"BertProcessing","sep":["[SEP]",257],"cls":["[CLS]",256]})";
  const std::string file = directory_.file("tokenizer.json");
  write_text(file, tokenizer.json());
  PackTextOptions packed =
      options(R"({"tokens": ["a", "b", "c"], "label": [3, -100, 1]})", TextTargets::token_classes);
  packed.tokenizer = file;
  packed.longest = 8;

  static_cast<void>(pack_text(packed));
  const auto data = open(packed, 4);

  const Sample only = sample(*data, 0);  // [CLS] a _ b _ c [SEP], padding
  EXPECT_EQ(only.inputs.front(), 256);
  EXPECT_EQ(only.inputs[6], 257);
  EXPECT_EQ(only.inputs[7], 7);
  EXPECT_EQ(only.targets, Ids({-1, 3, -1, -1, 1, -1, -1, -1}));
  EXPECT_EQ(only.starts, Ids({0, 0, 0, 0, 0, 0, 0, 7, 7}));
}

TEST_F(LabelledText, NumbersClassesAsAnotherDataSetAndRefusesUnseenOnes) {
  const PackTextOptions train = options(R"({"text": "a", "label": "yes"}
{"text": "b", "label": "no"})",
                                        TextTargets::label, "train");
  static_cast<void>(pack_text(train));
  PackTextOptions validation = options(R"({"text": "a", "label": "yes"})", TextTargets::label);
  validation.classes_of = train.output;
  static_cast<void>(pack_text(validation));
  const auto data = open(validation, 2);

  EXPECT_THAT(data->id_names().classes, ElementsAre("no", "yes"));
  EXPECT_EQ(sample(*data, 0).targets, Ids({1}));
  PackTextOptions unseen = options(
      "\n"
      R"({"text": "a", "label": "maybe"})",
      TextTargets::label, "unseen");
  unseen.classes_of = train.output;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(unseen)); }, "unseen.jsonl: line 2",
      "'maybe'", "--classes-of");
}

TEST_F(LabelledText, RefusesBadLinesByTheirNumber) {
  expect_refused(R"({"text": "a"})", TextTargets::label, "line 1", "\"label\"");
  expect_refused(R"({"text": "a", "label": -1})", TextTargets::label, "line 1", "-1");
  expect_refused("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": \"x\"}",
                 TextTargets::label, "line 2", "names and others numbers");
  expect_refused("{\"text\": \"a\", \"label\": [1, 2]}\n{\"text\": \"b\", \"label\": 3}",
                 TextTargets::values, "line 2", "1 numbers", "have 2");
  expect_refused(R"({"text": "a", "text_pair": "b", "label": 1})", TextTargets::label, "text_pair",
                 "not supported");
  expect_refused(R"({"text": "a", "label": "x\u0000y"})", TextTargets::label, "line 1", "NUL");
  expect_refused(
      std::string("{\"text\": \"a\", \"label\": 1}\0{\"text\": \"b\", \"label\": 0}", 52),
      TextTargets::label, "line 1", "not a JSON object");
  expect_refused(R"({"tokens": ["a"], "label": [1, 2]})", TextTargets::token_classes, "line 1",
                 "two lists of one length");
}

TEST_F(LabelledText, RefusesAModelWithAnotherHead) {
  const PackTextOptions packed = options(R"({"text": "abcdef", "label": 3})", TextTargets::label);
  static_cast<void>(pack_text(packed));
  const auto open_as = [&](TextTargets targets, std::int64_t width, std::int64_t context) {
    return [=, this] {
      static_cast<void>(Dataset::open(
          packed.output, {.context = context, .text_targets = targets, .target_width = width}));
    };
  };

  expect_error(ExitCode::data, open_as(TextTargets::none, 0, 8), "texts with class", "model.head");
  expect_error(ExitCode::data, open_as(TextTargets::values, 4, 8), "texts with values",
               "model.head");
  expect_error(ExitCode::data, open_as(TextTargets::label, 3, 8), "4 classes", "model.classes",
               "at least 4");
  expect_error(ExitCode::data, open_as(TextTargets::label, 4, 5), "model.context is 5",
               "--longest 5");
}

}  // namespace
}  // namespace trireme
