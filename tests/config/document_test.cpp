// SPDX-License-Identifier: Apache-2.0
// Errors of a file as a whole: syntax, structure, size, hostile input.
#include <gmock/gmock.h>

#include "tests/config/support.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string result;
  while (result.size() + text.size() <= bytes)
    result += text;
  return result;
}

constexpr std::size_t nearly_a_mebibyte = (std::size_t{1} << 20) - 64;

TEST(ConfigDocument, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(parse_error("model:\n  layers: 2\n  n_heds: 4"),
            "a.yaml:3: model.n_heds: unknown key; did you mean model.heads?");
  EXPECT_EQ(parse_error("model: {haeds: 4}"),
            "a.yaml:1: model.haeds: unknown key; did you mean model.heads?");
  EXPECT_EQ(parse_error("modle: {heads: 4}"), "a.yaml:1: modle: unknown key; did you mean model?");
  EXPECT_THAT(parse_error("Precision: fp32"), HasSubstr("did you mean precision?"));
}

TEST(ConfigDocument, KeyInTheWrongSectionNamesTheRightOne) {
  EXPECT_THAT(parse_error("train: {learning_rate: 1}"),
              HasSubstr("did you mean optimizer.learning_rate?"));
  EXPECT_THAT(parse_error("steps: 1"), HasSubstr("did you mean train.steps?"));
  EXPECT_EQ(parse_error("train.steps: 1"),
            "a.yaml:1: train.steps: a key must be inside its section; write train: {steps: ...}");
}

TEST(ConfigDocument, KeyFarFromEveryOtherListsTheSection) {
  EXPECT_EQ(parse_error("run: {quux: 4}"),
            "a.yaml:1: run.quux: unknown key; section run has: directory, seed, deadline_minutes");
  EXPECT_THAT(
      parse_error("zzzzzzzz: 4"),
      HasSubstr("the top level has: run, device, precision, fp8_recipe, reproducibility, "));
}

TEST(ConfigDocument, DuplicateKeysAreRefusedWithBothLines) {
  EXPECT_EQ(parse_error("train:\n  steps: 1\n  log_every: 2\n  steps: 3"),
            "a.yaml:4: duplicate key steps, first given on line 2; keep one");
  EXPECT_THAT(parse_error("train: {steps: 1}\ntrain: {log_every: 2}"),
              HasSubstr("duplicate key train"));
}

TEST(ConfigDocument, SectionMustHoldKeys) {
  EXPECT_EQ(parse_error("train: 5"),
            "a.yaml:1: train: expected a section of keys such as steps, found the number 5");
  EXPECT_THAT(parse_error("train: [steps]"), HasSubstr("found a list"));
}

TEST(ConfigDocument, SectionWithAllKeysCommentedOutIsEmpty) {
  EXPECT_EQ(parsed("train:\n#  steps: 5\nmodel: {layers: 2}").train, TrainConfig{});
}

TEST(ConfigDocument, EmptyAndNonMapDocumentsAreRefused) {
  EXPECT_THAT(parse_error(""), StartsWith("a.yaml: the config is empty"));
  EXPECT_THAT(parse_error("# nothing\n\n"), StartsWith("a.yaml: the config is empty"));
  EXPECT_THAT(parse_error("---\n..."), StartsWith("a.yaml: the config is empty"));
  EXPECT_THAT(parse_error("- a\n- b"), HasSubstr("a.yaml:1: expected sections and keys such as"));
  EXPECT_THAT(parse_error("just words"), HasSubstr("found the text \"just words\""));
}

TEST(ConfigDocument, SyntaxErrorsCarryTheLine) {
  EXPECT_THAT(parse_error("train:\n  steps: [1, 2"),
              StartsWith("a.yaml:2: YAML syntax error at column"));
  EXPECT_THAT(parse_error("train: {steps: 1}\n  log_every: 3"), StartsWith("a.yaml:2: "));
  EXPECT_THAT(parse_error("run: {directory: \"open}"), HasSubstr("YAML syntax error"));
}

TEST(ConfigDocument, TabIndentationIsNamed) {
  EXPECT_EQ(parse_error("train:\n\tsteps: 5"),
            "a.yaml:2: a tab in the indentation; YAML indents with spaces");
  EXPECT_EQ(
      parsed("train:\n  steps: 5\t# tab before a comment\n\t# and before this\n\t\n").train.steps,
      5);
}

TEST(ConfigDocument, WindowsLineEndsAndByteOrderMarkAreRead) {
  EXPECT_EQ(parsed("\xEF\xBB\xBFtrain:\r\n  steps: 5\r\n  recompute: none\r\n").train.steps, 5);
}

TEST(ConfigDocument, AnchorsAliasesTagsAndMergeKeysAreRefused) {
  EXPECT_THAT(parse_error("model: &m {layers: 2}"),
              HasSubstr("a.yaml:1: YAML anchors are not allowed"));
  EXPECT_THAT(parse_error("train: {steps: &s 5}"), HasSubstr("anchors are not allowed"));
  EXPECT_THAT(parse_error("train: {steps: *s}"), StartsWith("a.yaml:1: "));
  EXPECT_THAT(parse_error("train: {steps: !!int 5}"), HasSubstr("YAML tag"));
  EXPECT_THAT(parse_error("train: {<<: {steps: 5}}"), HasSubstr("unknown key"));
}

TEST(ConfigDocument, AliasBombIsRefusedAtItsFirstAnchor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last + ", " + last +
            ", " + last + "]\n";
  }

  EXPECT_THAT(parse_error(bomb), HasSubstr("a.yaml:1: YAML anchors are not allowed"));
}

TEST(ConfigDocument, SecondDocumentIsRefused) {
  EXPECT_THAT(parse_error("train: {steps: 5}\n---\nmodel: {layers: 2}"),
              HasSubstr("a second YAML document"));
}

TEST(ConfigDocument, KeysMustBeWords) {
  EXPECT_THAT(parse_error("? [a, b]\n: 1"), HasSubstr("expected a word as key"));
  EXPECT_THAT(parse_error("? {a: b}\n: 1"), HasSubstr("expected a word as key"));
  EXPECT_THAT(parse_error("~: 1"), HasSubstr("expected a word as key"));
  EXPECT_THAT(parse_error("'': 1"), HasSubstr("expected a word as key"));
}

TEST(ConfigDocument, DeepNestingIsRefusedInEveryStyle) {
  std::string indented;
  for (std::size_t i = 0; i < 1000; ++i)
    indented += std::string(i, ' ') + "a:\n";

  for (const std::string& text :
       {repeated("[", nearly_a_mebibyte), repeated("{a: ", nearly_a_mebibyte),
        repeated("- ", nearly_a_mebibyte), repeated("? ", nearly_a_mebibyte),
        repeated("[\n", nearly_a_mebibyte), indented}) {
    EXPECT_THAT(parse_error(text),
                testing::AnyOf(HasSubstr("nested deeper than 32 levels"),
                               HasSubstr("expected a word as key"), HasSubstr("syntax error")))
        << text.substr(0, 8);
  }
}

TEST(ConfigDocument, ManyKeysAreRefusedBeforeTheyCost) {
  std::string keys;
  for (int i = 0; i < 100000; ++i)
    keys += "k" + std::to_string(i) + ": 1\n";

  EXPECT_THAT(parse_error(keys), HasSubstr("more than 1024 entries"));
}

TEST(ConfigDocument, BinaryGarbageIsRefused) {
  EXPECT_THAT(parse_error(std::string("\x7f"
                                      "ELF\x02\x01\x01\0\0",
                                      9)),
              HasSubstr("a.yaml:1: byte 0x7f is a control character"));
  EXPECT_THAT(parse_error(std::string("a: 1\n\0b", 7)),
              HasSubstr("a.yaml:2: byte 0x00 is a control character"));
  EXPECT_THAT(parse_error("a: \xff\xfe"), HasSubstr("byte 0xff is not UTF-8"));
  for (const char* const malformed : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80",
                                      "\xF0\x80\x80\xAF", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_THAT(parse_error(std::string("run: {directory: ") + malformed + "}"),
                HasSubstr("is not UTF-8"));
  }
}

TEST(ConfigDocument, LongKeysAndValuesAreCutInMessages) {
  const std::string message = parse_error(std::string(1000, 'k') + ": 1");

  EXPECT_LT(message.size(), 400U);
  EXPECT_THAT(message, HasSubstr("kkk...: unknown key"));
}

class ConfigFile : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

TEST_F(ConfigFile, MessagesNameItsPath) {
  const std::string path = directory_.write("bad.yaml", "train:\n  stepz: 1\n");

  EXPECT_EQ(config_error([&] { return load_config(path, {}); }),
            path + ":2: train.stepz: unknown key; did you mean train.steps?");
}

TEST_F(ConfigFile, MissingDirectoryAndEmptyNamesAreRefused) {
  const std::string missing = (directory_.path() / "no.yaml").string();

  EXPECT_EQ(config_error([&] { return load_config(missing, {}); }),
            missing + ": cannot open the config file: No such file or directory");
  EXPECT_THAT(config_error([&] { return load_config(directory_.path().string(), {}); }),
              HasSubstr("is a directory"));
  EXPECT_THAT(config_error([&] { return load_config("", {}); }), HasSubstr("no config file given"));
}

TEST_F(ConfigFile, LargerThanAMebibyteIsRefused) {
  const std::string path =
      directory_.write("big.yaml", std::string((std::size_t{1} << 20) + 1, '#'));

  EXPECT_THAT(config_error([&] { return load_config(path, {}); }),
              HasSubstr("larger than 1048576 bytes"));
}

TEST_F(ConfigFile, PipesAndDevicesAreRefusedWithoutReading) {
  EXPECT_THAT(config_error([&] { return load_config("/dev/zero", {}); }),
              HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace trireme
