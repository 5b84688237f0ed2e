// SPDX-License-Identifier: Apache-2.0
// Tokenizers that are not byte-level, with tokens that can be checked by hand;
// tests/checks/check_tokenizer.py compares learned ones with the tokenizers library.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <random>

#include "data/tokenizer/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using Ids = std::vector<std::uint32_t>;

struct Parts {
  std::string model, normalizer = "null", pre_tokenizer = "null", decoder = "null", added = "[]";
};

// The one added token of a file; strips spaces on its right or not.
std::string added_token(const std::string& text, const std::string& rstrip) {
  return fmt::format(R"([{{"id":262,"content":"{}","single_word":false,"lstrip":false,"rstrip":{},)"
                     R"("normalized":false,"special":true}}])",
                     text, rstrip);
}

const std::string word_piece_model =
    R"({"type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##",
        "max_input_chars_per_word":8,"vocab":{"?":0,"oar":1,"##s":2,"##man":3,"row":4,".":5,"oa":6,
        "\u65e5":7,"cafe":8}})";
const std::string bert =
    R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
        "strip_accents":null,"lowercase":true})";

// Bytes 0 to 255 as <0x00>..., then these tokens.
std::string with_bytes(const std::vector<std::string>& tokens) {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary += fmt::format("{}\"<0x{:02X}>\":{}", byte == 0 ? "" : ",", byte, byte);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    vocabulary += fmt::format(",\"{}\":{}", tokens[i], 256 + i);
  return vocabulary;
}

Parts llama(const std::string& merges = R"([["o","a"],["\u2581","oa"]])",
            const std::vector<std::string>& tokens = {"\u2581", "o", "a", "oa", "\u2581oa", "r"}) {
  return {
      .model = R"({"type":"BPE","byte_fallback":true,"unk_token":null,"fuse_unk":true,"vocab":{)" +
               with_bytes(tokens) + R"(},"merges":)" + merges + "}",
      .normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},
              {"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]})",
      .decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":
              {"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
              {"type":"Strip","content":" ","start":1,"stop":0}]})"};
}

const std::string scores_model =
    R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["\u2581",-2],["a",-3],["b",-3],
        ["ab",-4.5],["\u2581a",-5.5],["ba",-1]]})";

class WordTokensFile : public testing::Test {
 protected:
  [[nodiscard]] std::string written(const Parts& parts) const {
    const std::string path = directory_.file("tokenizer.json");
    test::write_text(path, fmt::format(R"({{"added_tokens":{},"normalizer":{},"pre_tokenizer":{},)"
                                       R"("post_processor":null,"decoder":{},"model":{}}})",
                                       parts.added, parts.normalizer, parts.pre_tokenizer,
                                       parts.decoder, parts.model));
    return path;
  }
  [[nodiscard]] Ids ids(const Parts& parts, std::string_view text) const {
    Ids ids;
    TextEncoder(Tokenizer(written(parts))).encode(text, ids);
    return ids;
  }
  void expect_refused(const Parts& parts, const std::string& part) const {
    const std::string path = written(parts);
    test::expect_error(
        ExitCode::data, [&] { const Tokenizer tokenizer(path); }, path, part);
  }

  test::TemporaryDirectory directory_;
};

TEST_F(WordTokensFile, AddedTokensThatAreNoListAreRefused) {
  expect_refused({.model = scores_model, .added = "null"}, "added_tokens");
}

TEST_F(WordTokensFile, FlagsOfAddedTokensHaveNoDefault) {
  const std::string good = added_token("<s>", "false");
  for (const std::string flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    std::string missing = good;
    missing.replace(missing.find(flag), flag.size(), "other");
    expect_refused({.model = scores_model, .added = missing}, flag + " is missing");
  }
  for (const std::string wrong : {"null", "1", "\"-\""})
    expect_refused({.model = scores_model, .added = added_token("<s>", wrong)},
                   "rstrip is " + wrong);
}

TEST_F(WordTokensFile, TakesTheLongestWordPiecesFromTheLeft) {
  const Parts parts{.model = word_piece_model,
                    .normalizer = bert,
                    .pre_tokenizer = R"({"type":"BertPreTokenizer"})"};
  EXPECT_EQ(ids(parts, "Oarsman. row"), (Ids{1, 2, 3, 5, 4}));
  EXPECT_EQ(ids(parts, "oarx oas"), (Ids{0, 6, 2}));        // no piece fits "##x"
  EXPECT_EQ(ids(parts, "oarsmanss oars"), (Ids{0, 1, 2}));  // longer than 8 characters
  EXPECT_EQ(ids(parts, "CAF\u00c9\u65e5oar\t\u200brow"), (Ids{8, 7, 1, 4}));
}

TEST_F(WordTokensFile, WritesWordPiecesAsWords) {
  Parts parts{.model = word_piece_model,
              .pre_tokenizer = R"({"type":"BertPreTokenizer"})",
              .decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})"};
  const Tokenizer tokenizer(written(parts));
  const Ids sentence = {1, 2, 3, 4, 5};
  EXPECT_EQ(tokenizer.text_of(sentence, true), "oarsman row.");
  EXPECT_EQ(tokenizer.text_of(sentence), " oarsman row.");  // after other text
  EXPECT_FALSE(tokenizer.keeps_text());
}

TEST_F(WordTokensFile, MergesCharactersAndFallsBackToBytes) {
  EXPECT_EQ(ids(llama(), "oa oar"), (Ids{260, 260, 261}));
  EXPECT_EQ(ids(llama(), "\u00e9"), (Ids{256, 0xC3, 0xA9}));
  const Tokenizer tokenizer(written(llama()));
  EXPECT_EQ(tokenizer.text_of(Ids{260, 260, 261, 0xC3, 0xA9}, true), "oa oar\u00e9");
  EXPECT_EQ(tokenizer.text_of(Ids{260}), " oa");
}

TEST_F(WordTokensFile, FindsTheMostProbableTokens) {
  const Parts parts{.model = scores_model,
                    .pre_tokenizer = R"({"type":"Metaspace","replacement":"\u2581",
                                         "prepend_scheme":"always","split":true})",
                    .decoder = R"({"type":"Metaspace","replacement":"\u2581",
                                   "prepend_scheme":"always","split":true})"};
  EXPECT_EQ(ids(parts, "ab a"), (Ids{1, 4, 1, 2}));  // -6.5 before -8.5, -5 before -5.5
  EXPECT_EQ(ids(parts, "aba"), (Ids{1, 2, 6}));
  EXPECT_EQ(ids(parts, "xyb"), (Ids{1, 0, 3}));  // unknown ones in a row are one
  const Tokenizer tokenizer(written(parts));
  EXPECT_EQ(tokenizer.text_of(Ids{1, 4, 1, 2}, true), "ab a");
}

TEST_F(WordTokensFile, GivesTheSameTokensInPartsAsWhole) {
  std::mt19937 random(5);
  const std::vector<std::string> words = {"oa",  "oar", " ",      "  ", "row", ".",
                                          "<s>", "\n",  "\u00e9", "ab", "X",   "\u2581"};
  const std::string added = added_token("<s>", "true");
  Parts pieces{.model = word_piece_model,
               .normalizer = bert,
               .pre_tokenizer = R"({"type":"BertPreTokenizer"})"};
  Parts scores{.model = scores_model,
               .pre_tokenizer = R"({"type":"Metaspace","replacement":"\u2581",
                                    "prepend_scheme":"first","split":true})"};
  Parts pairs = llama();
  pairs.added = added;
  for (const Parts& parts : {pieces, scores, pairs}) {
    const Tokenizer tokenizer(written(parts));
    std::size_t cuts = 0;
    for (int round = 0; round < 200; ++round) {
      std::string text;
      while (text.size() < 60)
        text += words[random() % words.size()];
      const std::size_t cut = tokenizer.last_cut(text);
      if (cut == 0) continue;
      ++cuts;
      TextEncoder encoder(tokenizer);
      Ids whole, halves;
      encoder.encode(text, whole);
      ASSERT_TRUE(encoder.encode_part(text.substr(0, cut), true, text.substr(cut), halves));
      encoder.encode(text.substr(cut), halves, false);
      EXPECT_EQ(halves, whole) << text << "|" << cut;
    }
    EXPECT_GT(cuts, 100U);
  }
}

TEST_F(WordTokensFile, CutsNothingWhereATokenCouldCrossTheCut) {
  EXPECT_GT(Tokenizer(written(llama())).last_cut("oa oa"), 0U);
  Parts crossing = llama(R"([["a","\u2581"]])", {"\u2581", "o", "a", "a\u2581"});
  EXPECT_EQ(Tokenizer(written(crossing)).last_cut("oa oa"), 0U);
  Parts ending = llama();
  ending.added = added_token("word", "false");
  EXPECT_EQ(Tokenizer(written(ending)).last_cut("oa oa"), 0U);
}

TEST_F(WordTokensFile, NamesPartsThatAreNotSupported) {
  Parts parts{.model = word_piece_model, .normalizer = R"({"type":"Nmt"})"};
  expect_refused(parts, "Nmt");
  parts.normalizer = R"({"type":"Precompiled","precompiled_charsmap":"AAAA"})";
  expect_refused(parts, "table of characters");
  parts.normalizer = R"({"type":"Precompiled","precompiled_charsmap":"!"})";
  expect_refused(parts, "base64");
  parts.normalizer = "null";
  parts.pre_tokenizer = R"({"type":"UnicodeScripts"})";
  expect_refused(parts, "UnicodeScripts");
  parts.pre_tokenizer = "null";
  parts.decoder = R"({"type":"CTC"})";
  expect_refused(parts, "CTC");
  parts = {.model = R"({"type":"WordLevel","vocab":{}})"};
  expect_refused(parts, "WordLevel");
  parts = {.model = R"({"type":"BPE","byte_fallback":true,"vocab":{"a":0},"merges":[]})"};
  expect_refused(parts, "<0x00>");
  parts = {.model = R"({"type":"Unigram","unk_id":null,"vocab":[["a",0]]})"};
  expect_refused(parts, "unk_id");
  parts = {.model = R"({"type":"WordPiece","unk_token":"none","continuing_subword_prefix":"##",
                        "max_input_chars_per_word":8,"vocab":{"a":0}})"};
  expect_refused(parts, "unk_token");
  // JSON's conversions would take these for whole numbers.
  for (const char* const wrong : {"true", "3.7", "-1", "\"8\""}) {
    parts = {.model = fmt::format(
                 R"({{"type":"WordPiece","unk_token":"a","continuing_subword_prefix":"##",
                                     "max_input_chars_per_word":{},"vocab":{{"a":0}}}})",
                 wrong)};
    expect_refused(parts, "max_input_chars_per_word");
    parts = {.model = fmt::format(
                 R"({{"type":"BPE","unk_token":"a","vocab":{{"a":{}}},"merges":[]}})", wrong)};
    expect_refused(parts, "model.vocab");
  }
  parts = {.model = R"({"type":"BPE","unk_token":"a","vocab":{"a":0},"merges":null})"};
  expect_refused(parts, "model.merges");
  parts = {.model = R"({"type":"BPE","unk_token":"a","fuse_unk":1,"vocab":{"a":0},"merges":[]})"};
  expect_refused(parts, "fuse_unk");
}

}  // namespace
}  // namespace trireme
