// SPDX-License-Identifier: Apache-2.0
// Small tokenizers with tokens that can be checked by hand; unlike
// tests/checks/check_tokenizer.py it does not need the tokenizers library.
#include "data/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/base/utf8.h"
#include "tests/data/make_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::TokenizerText;

class TokenizerFile : public testing::Test {
 protected:
  [[nodiscard]] std::string written(const TokenizerText& text) const {
    const std::string path = directory_.file("tokenizer.json");
    test::write_text(path, text.json());
    return path;
  }
  // The tokens of `text` as text, each in brackets.
  [[nodiscard]] static std::string pieces(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::uint32_t> ids;
    TextEncoder(tokenizer).encode(text, ids);
    std::string shown;
    for (const std::uint32_t id : ids)
      shown += "[" + tokenizer.text_of({&id, 1}) + "]";
    return shown;
  }
  [[nodiscard]] std::string pieces(const TokenizerText& text, std::string_view input) const {
    return pieces(Tokenizer(written(text)), input);
  }
  void expect_refused(const TokenizerText& text, const std::string& part) const {
    const std::string path = written(text);
    expect_error(
        ExitCode::data, [&] { const Tokenizer tokenizer(path); }, path, part);
  }

  test::TemporaryDirectory directory_;
};

TEST_F(TokenizerFile, UnsupportedKindsAreNamedByTheirBytes) {
  TokenizerText pairs;
  pairs.merges = {"a b"};
  const std::string path = written(pairs);
  EXPECT_EQ(tokenizer_name(path), Tokenizer(path).name());

  const std::string words = directory_.file("words.json");
  const auto name_of = [&](const std::string& vocabulary) {
    test::write_text(words, R"({"model": {"type": "WordLevel", "vocab": {)" + vocabulary + "}}}");
    return tokenizer_name(words);
  };
  const std::string one = name_of(R"("oar": 0)");

  EXPECT_EQ(one.find("huggingface:words.json:xxh3="), 0U);
  EXPECT_EQ(one.find(":tokens="), std::string::npos);
  EXPECT_EQ(name_of(R"("oar": 0)"), one);
  EXPECT_NE(name_of(R"("oar": 1)"), one);
  expect_error(
      ExitCode::data, [&] { (void)tokenizer_name(directory_.file("none")); }, "none");
}

TEST_F(TokenizerFile, MergesThePairThatWasLearnedFirst) {
  TokenizerText with;
  with.merges = {"b c", "a b", "a bc", "abc d"};
  EXPECT_EQ(pieces(with, "abcd"), "[abcd]");
  EXPECT_EQ(pieces(with, "abab"), "[ab][ab]");
  EXPECT_EQ(pieces(with, "bcab"), "[bc][ab]");
}

TEST_F(TokenizerFile, ReadsMergesThatAreWrittenAsPairs) {
  TokenizerText with;
  with.merges = {"b c", "a bc"};
  with.pairs = true;
  EXPECT_EQ(pieces(with, "abc"), "[abc]");
}

TEST_F(TokenizerFile, MergesLongWordsAndCachedWordsEqually) {
  TokenizerText with;
  with.merges = {"a a", "aa aa", "aaaa aaaa"};
  const Tokenizer tokenizer(written(with));
  EXPECT_EQ(pieces(tokenizer, std::string(29, 'a')), "[aaaaaaaa][aaaaaaaa][aaaaaaaa][aaaa][a]");
  TextEncoder encoder(tokenizer);
  std::vector<std::uint32_t> first, second;
  encoder.encode("aaa aaaaaaaaaaa aaa", first);
  encoder.encode("aaa aaaaaaaaaaa aaa", second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(tokenizer.text_of(first), "aaa aaaaaaaaaaa aaa");
}

TEST_F(TokenizerFile, NeverMergesAcrossThePiecesOfGpt2) {
  TokenizerText with;
  with.merges = {"o r", "w or", "e r", "\u0120 wor"};
  EXPECT_EQ(pieces(with, "wor wor  wor"), "[wor][ wor][ ][ wor]");
  EXPECT_EQ(pieces(with, "er'er"), "[er]['][er]");
}

TEST_F(TokenizerFile, TakesAWordThatIsATokenWholeWhereMergesAreIgnored) {
  TokenizerText with;
  with.merges = {"a b"};
  with.extra_words = {"xyz"};
  EXPECT_EQ(pieces(with, "xyz"), "[x][y][z]");
  with.whole_words = true;
  EXPECT_EQ(pieces(with, "xyz"), "[xyz]");
}

TEST_F(TokenizerFile, FindsAddedTokensBeforeAnythingElse) {
  TokenizerText with;
  with.merges = {"a b"};
  with.added = {{.text = "<|end|>"}, {.text = "<|end|>>"}, {.text = "<mask>", .strip_left = true}};
  EXPECT_EQ(pieces(with, "ab<|end|>ab"), "[ab][<|end|>][ab]");
  EXPECT_EQ(pieces(with, "<|end|>>"), "[<|end|>>]");
  EXPECT_EQ(pieces(with, "ab \n<mask> ab"), "[ab][<mask>][ ][ab]");
  EXPECT_EQ(pieces(with, "<|en"), "[<][|][e][n]");
}

TEST_F(TokenizerFile, LeavesAddedWordsInsideOtherWordsAlone) {
  TokenizerText with;
  with.added = {{.text = "ab", .single_word = true}};
  EXPECT_EQ(pieces(with, "ab xab ab"), "[ab][ ][x][a][b][ ][ab]");
}

TEST_F(TokenizerFile, ComposesAccentsWhereTheNormalizerSaysSo) {
  TokenizerText with;
  with.merges = {"\u00c3 \u00a9"};  // the two bytes of é
  EXPECT_EQ(pieces(with, "e\u0301").size(), std::string("[e][x][x]").size());
  with.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"}]})";
  EXPECT_EQ(pieces(with, "e\u0301"), "[\u00e9]");
  EXPECT_EQ(pieces(with, "\u00e9"), "[\u00e9]");
}

TEST_F(TokenizerFile, CutsByThePatternsThatItNames) {
  TokenizerText with;
  with.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[)"
      R"({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}|[^\\s\\p{N}]+|\\s+(?!\\S)|\\s"},)"
      R"("behavior":"Isolated","invert":false},)"
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
  with.merges = {"1 2", "12 3", "4 5"};
  EXPECT_EQ(pieces(with, "12345 123"), "[123][45][ ][123]");
}

TEST_F(TokenizerFile, NamesPartsThatAreNotSupported) {
  TokenizerText with;
  with.normalizer = R"({"type":"Lowercase"})";
  expect_refused(with, "Lowercase");
  with = {};
  with.pre_tokenizer = R"({"type":"Metaspace","replacement":"_"})";
  expect_refused(with, "model.unk_token");  // without ByteLevel other text would be lost
  const std::string sequence = R"({"type":"Sequence","pretokenizers":[)";
  for (int depth = 0; depth < 99; ++depth)
    with.pre_tokenizer = sequence + with.pre_tokenizer + "]}";
  expect_refused(with, "nested");
  with = {};
  with.model_type = "Unigram";
  expect_refused(with, "Unigram");
  with = {};
  for (const char* const version : {"\"2.0\"", "null", "1"}) {
    with.version = version;
    expect_refused(with, "version");
  }
  with = {};
  with.decoder = "[]";
  expect_refused(with, "cannot be read as a tokenizer.json");
  with = {};
  with.normalizer = R"({"type":"Sequence","normalizers":null})";
  expect_refused(with, "cannot be read as a tokenizer.json");
  with = {};
  with.byte_fallback = "{}";
  expect_refused(with, "byte_fallback");
  with = {};
  with.merges = {"a q\u00e4"};
  expect_refused(with, "model.merges");
  with = {};
  with.left_out = "~";
  expect_refused(with, "0x7e");
  with = {};
  with.added = {{.text = "<x>", .id_offset = 5}};
  expect_refused(with, "<x>");
}

using Ids = std::vector<std::uint32_t>;

TEST_F(TokenizerFile, FramesTextsAsThePostProcessorSays) {
  TokenizerText with;
  EXPECT_EQ(Tokenizer(written(with)).frame().prefix, Ids{});
  with.post_processor = R"({"type":"BertProcessing","sep":["[SEP]",7],"cls":["[CLS]",5]})";
  TextFrame one = Tokenizer(written(with)).frame(), two = Tokenizer(written(with)).frame(true);
  EXPECT_EQ(one.prefix, Ids{5});
  EXPECT_EQ(one.middle, Ids{});
  EXPECT_EQ(one.suffix, Ids{7});
  EXPECT_EQ(two.middle, Ids{7});
  EXPECT_TRUE(two.second_type);
  with.post_processor = R"({"type":"RobertaProcessing","sep":["</s>",7],"cls":["<s>",5]})";
  two = Tokenizer(written(with)).frame(true);
  EXPECT_EQ(two.middle, (Ids{7, 7}));
  EXPECT_FALSE(two.second_type);
  // Llama 3: a Sequence, and no token at the end.
  with.post_processor = R"({"type":"Sequence","processors":[{"type":"ByteLevel"},
    {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<b>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}}],"pair":[{"SpecialToken":{"id":"<b>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<b>","type_id":1}},
    {"Sequence":{"id":"B","type_id":1}}],
    "special_tokens":{"<b>":{"id":"<b>","ids":[9],"tokens":["<b>"]}}}]})";
  const Tokenizer tokenizer(written(with));
  one = tokenizer.frame();
  two = tokenizer.frame(true);
  EXPECT_EQ(one.prefix, Ids{9});
  EXPECT_EQ(one.suffix, Ids{});
  EXPECT_EQ(two.middle, Ids{9});
  EXPECT_TRUE(two.second_type);
  EXPECT_EQ(two.of_second, 1U);
}

TEST_F(TokenizerFile, RefusesPostProcessorsThatAreNoFrame) {
  TokenizerText with;
  const auto refused = [&](const std::string& processor, const std::string& part) {
    with.post_processor = processor;
    const std::string path = written(with);
    expect_error(
        ExitCode::data, [&] { (void)Tokenizer(path).frame(); }, path, part);
  };
  refused(R"({"type":"Reversing"})", "Reversing");
  refused(R"({"type":"TemplateProcessing","single":[],"special_tokens":{}})", "texts ''");
  refused(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":2}}]})",
          "type 2");
  refused(R"({"type":"BertProcessing"})", "post_processor");
}

TEST_F(TokenizerFile, RefusesPatternsThatTheTwoLibrariesReadDifferently) {
  for (const char* const pattern :
       {R"(\\w+)", R"(.+)", R"(^a)", R"((?<=a)b)", R"([a[b]]+)", R"(a*)", R"(\\p{Alnum}+)",
        R"(a{,3}b)", R"([a-z&&[^b]])", R"((a)", R"(\\h)"}) {
    TokenizerText with;
    with.pre_tokenizer =
        std::string(R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")") +
        pattern +
        R"("},"behavior":"Isolated","invert":false},)"
        R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
    expect_refused(with, "pattern");
  }
}

TEST_F(TokenizerFile, RefusesFilesThatAreDamaged) {
  const std::string path = directory_.file("tokenizer.json");
  for (const std::string text :
       {"", "[]", "{", R"({"model":{}})", R"({"model":{"vocab":[],"merges":[]}})",
        R"({"model":{"vocab":{"a":99999999},"merges":[]}})"}) {
    test::write_text(path, text);
    expect_error(
        ExitCode::data, [&] { const Tokenizer tokenizer(path); }, path);
  }
}

TEST_F(TokenizerFile, FlagsOfByteLevelHaveNoDefault) {
  TokenizerText with;
  with.decoder = R"({"type":"ByteLevel","add_prefix_space":true})";
  expect_refused(with, "trim_offsets is missing");
  with.decoder = R"({"type":"ByteLevel","add_prefix_space":1,"trim_offsets":true})";
  expect_refused(with, "add_prefix_space is 1");
}

// At any cut the tokens equal those of the whole text, or the cut is refused.
TEST_F(TokenizerFile, IsTheSameInAnotherFileWithTheSameTokens) {
  const auto tokens = [&](const TokenizerText& text, const std::string& from = "",
                          const std::string& to = "") {
    std::string json = text.json();
    if (!from.empty()) json.replace(json.find(from), from.size(), to);
    const std::string path = directory_.file("tokenizer.json");
    test::write_text(path, json);
    const std::string name = Tokenizer(path).name();
    return name.substr(name.find(":tokens="));
  };
  TokenizerText with;
  with.merges = {"a b", "ab c"};
  with.added = {{"<end>"}};
  const std::string own = tokens(with);
  TokenizerText pairs = with, more = with, other = with, strips = with, composed = with;
  pairs.pairs = true;
  other.merges = {"a b", "b c"};
  strips.added[0].strip_left = true;
  more.added.push_back({"<pad>"});
  composed.normalizer = R"({"type":"NFC"})";

  EXPECT_EQ(tokens(pairs), own);
  EXPECT_EQ(tokens(with, R"("post_processor":null)",
                   R"("post_processor":{"type":"ByteLevel","trim_offsets":false})"),
            own);
  for (const TokenizerText& another : {more, other, strips, composed})
    EXPECT_NE(tokens(another), own);
}

TEST_F(TokenizerFile, RefusesDeeplyNestedValues) {
  const std::string whole = TokenizerText{}.json();
  const std::string path = directory_.file("tokenizer.json");
  const auto deep = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  for (const char* const place : {"{\"dropout\": ", "{\"continuing_subword_prefix\": "}) {
    std::string text = whole;
    const std::size_t at = text.find('{', text.find("\"model\""));
    test::write_text(path, text.replace(at, 1, place + deep(100'000) + ","));
    expect_error(
        ExitCode::data, [&] { const Tokenizer tokenizer(path); }, path,
        "nested more than 128 levels deep");
  }
}

TEST_F(TokenizerFile, GivesTheSameTokensInPartsAsWhole) {
  TokenizerText with;
  with.merges = {"a a", "\u0120 a", "\u010a \u010a", "b a", "\u0120a a", "\u0120 \u0120"};
  with.added = {{.text = "<|end|>"}};
  const Tokenizer tokenizer(written(with));
  const std::vector<std::string> words = {"a",      "aa",   "ab",  " ",       "  ",
                                          "\n",     "\n\n", "é",   "<|end|>", "'s",
                                          "\u3000", "12",   "<|e", ".\n",     "baa"};
  std::mt19937 random(3);
  std::size_t cuts = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    while (text.size() < 120)
      text += words[random() % words.size()];
    TextEncoder encoder(tokenizer);
    std::vector<std::uint32_t> whole, parts;
    encoder.encode(text, whole);
    const std::size_t cut = tokenizer.last_cut(std::string_view(text).substr(0, 60));
    if (cut == 0 || !encoder.encode_part(text.substr(0, cut), true, text.substr(cut), parts))
      continue;
    ++cuts;
    encoder.encode(std::string_view(text).substr(cut), parts, false);
    EXPECT_EQ(parts, whole) << text << "|" << cut;
  }
  EXPECT_GT(cuts, 200U);
}

TEST(Utf8, ReplacesWhatPythonReplaces) {
  const auto replaced = [](std::string_view text, std::size_t expected) {
    std::size_t count = 0;
    const std::string good = with_replaced_utf8(text, count);
    EXPECT_EQ(count, expected) << good;
    EXPECT_EQ(first_invalid_utf8(good), std::string_view::npos);
    EXPECT_EQ(first_invalid_utf8(text) == std::string_view::npos, expected == 0);
    return good;
  };
  EXPECT_EQ(replaced("caf\u00e9 \U0001F642", 0), "caf\u00e9 \U0001F642");
  EXPECT_EQ(replaced("a\xff"
                     "b",
                     1),
            "a\uFFFD"
            "b");
  EXPECT_EQ(replaced("\xe2\x82", 1), "\uFFFD");
  EXPECT_EQ(replaced("\xe2\x82z", 1), "\uFFFDz");
  EXPECT_EQ(replaced("\xf0\x90\x80", 1), "\uFFFD");
  EXPECT_EQ(replaced("\xed\xa0\x80", 3), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xc0\x80", 2), "\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xf4\x90\x80\x80", 4), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace trireme
