// SPDX-License-Identifier: Apache-2.0
// Models of SentencePiece, trained here on a few words: tokens equal the library's, also for texts
// encoded in parts, and no file crashes the program.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <random>

#include "data/pack/pack_text.h"
#include "data/shard/shard_set.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::write_text;

std::string text_of_words(std::size_t words, unsigned seed) {
  constexpr std::array<const char*, 16> known = {
      "the",    "ship", "rows", "three", "banks", "of", "oars",     "and",
      "Zürich", "日本", "ﬁne",  "it's",  "12",    "éa", "e\u0301a", "x-y"};
  constexpr std::array<const char*, 8> between = {" ", " ", " ", " ", "  ", ". ", "\n", " \t"};
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    text += known[random() % known.size()];
    text += between[random() % between.size()];
  }
  return text;
}

class SentencePieceTest : public testing::Test {
 protected:
  // A model by the library's trainer, with more of its options.
  [[nodiscard]] std::string trained(const std::string& name, const std::string& options) const {
    const std::string input = directory_.file("text");
    std::string lines;
    for (unsigned i = 0; i < 200; ++i)
      lines += text_of_words(12, i);
    write_text(input, lines);
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        fmt::format("--input={} --model_prefix={} --vocab_size=320 --hard_vocab_limit=false "
                    "--minloglevel=3 {}",
                    input, directory_.file(name), options));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return directory_.file(name) + ".model";
  }
  [[nodiscard]] static std::vector<std::uint32_t> encoded(const Tokenizer& tokenizer,
                                                          std::string_view text) {
    std::vector<std::uint32_t> ids;
    TextEncoder(tokenizer).encode(text, ids);
    return ids;
  }
  [[nodiscard]] static std::vector<std::uint32_t> encoded_in_parts(const Tokenizer& tokenizer,
                                                                   std::string_view text,
                                                                   std::size_t longest) {
    std::vector<std::uint32_t> ids;
    TextEncoder encoder(tokenizer);
    bool begins = true;
    while (text.size() > longest) {
      const std::size_t cut = tokenizer.last_cut(text.substr(0, longest));
      if (cut == 0) break;
      EXPECT_TRUE(encoder.encode_part(text.substr(0, cut), begins, "", ids));
      text.remove_prefix(cut);
      begins = false;
    }
    encoder.encode(text, ids, begins);
    return ids;
  }

  test::TemporaryDirectory directory_;
};

struct ModelKind {
  const char* name;
  const char* options;
  bool can_be_cut = true;
};

class SentencePieceKind : public SentencePieceTest,
                          public testing::WithParamInterface<ModelKind> {};

TEST_P(SentencePieceKind, TokensAreThoseOfTheLibraryInPartsToo) {
  const std::string path = trained("model", GetParam().options);
  const Tokenizer tokenizer(path);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(path).ok());
  ASSERT_EQ(tokenizer.vocabulary(), static_cast<std::uint32_t>(library.GetPieceSize()));
  ASSERT_TRUE(tokenizer.name().starts_with("sentencepiece:model.model:xxh3=")) << tokenizer.name();
  EXPECT_EQ(tokenizer.id_of("</s>"), 2U);
  EXPECT_EQ(tokenizer.id_of("no such piece"), std::nullopt);
  const std::string long_text = text_of_words(4000, 7);

  for (const std::string& text :
       {long_text, std::string(" begins with a space"),
        std::string("e\u0301\u00a0\U0001f642 \ufffd"), std::string("a\0b", 3), std::string("   "),
        std::string(), std::string("ends \n")}) {
    const std::vector<int> theirs = library.EncodeAsIds(text);
    EXPECT_EQ(encoded(tokenizer, text), std::vector<std::uint32_t>(theirs.begin(), theirs.end()));
  }
  EXPECT_EQ(tokenizer.last_cut(long_text) > 0, GetParam().can_be_cut);
  for (const std::size_t longest : {40, 333, 5000})
    EXPECT_EQ(encoded_in_parts(tokenizer, long_text, longest), encoded(tokenizer, long_text));
}
INSTANTIATE_TEST_SUITE_P(
    , SentencePieceKind,
    testing::Values(
        ModelKind{"bpe", "--model_type=bpe"}, ModelKind{"unigram", "--model_type=unigram"},
        ModelKind{"llama",
                  "--model_type=bpe --byte_fallback=true --character_coverage=0.98 "
                  "--normalization_rule_name=identity --remove_extra_whitespaces=false "
                  "--split_digits=true --allow_whitespace_only_pieces=true"},
        ModelKind{"as_it_is",
                  "--model_type=bpe --add_dummy_prefix=false "
                  "--remove_extra_whitespaces=false"},
        ModelKind{"no_prefix", "--model_type=unigram --add_dummy_prefix=false", false},
        ModelKind{"across_words", "--model_type=bpe --split_by_whitespace=false", false},
        ModelKind{"suffix", "--model_type=bpe --treat_whitespace_as_suffix=true", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(SentencePieceTest, TextComesBackFromItsTokens) {
  const Tokenizer tokenizer(
      trained("model",
              "--model_type=bpe --byte_fallback=true --normalization_rule_name=identity "
              "--remove_extra_whitespaces=false"));
  const std::string text = "the ship rows\nthree  banks \U0001f642";
  EXPECT_EQ(tokenizer.text_of(encoded(tokenizer, text)), " " + text);
  const std::vector<std::uint32_t> others = {0, 1, 2, tokenizer.vocabulary()};
  EXPECT_EQ(tokenizer.text_of(others), " \u2047 ");
}

TEST_F(SentencePieceTest, PacksDocumentsLongerThanABatchAsTheLibraryEncodesThem) {
  const std::string path = trained("model", "--model_type=bpe"), text = text_of_words(300'000, 3);
  ASSERT_GT(text.size(), std::size_t{1'400'000});
  write_text(directory_.file("long"), text);
  const PackedText packed = pack_text({.inputs = {directory_.file("long")},
                                       .output = directory_.file("out"),
                                       .tokenizer = path,
                                       .end_token = "</s>",
                                       .threads = 3});
  std::vector<std::uint32_t> ids = encoded(Tokenizer(path), text);
  ids.push_back(2);
  ASSERT_EQ(packed.splits.front().samples, ids.size());

  const ShardSet set(list_shards(directory_.file("out"), ""));
  std::vector<std::uint16_t> stored(ids.size());
  set.read(0, 0, std::as_writable_bytes(std::span(stored)), {});
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), stored.begin()));
}

TEST_F(SentencePieceTest, DamagedModelsAreRefusedOrEncode) {
  const std::string whole = test::read_text(trained("model", "--model_type=unigram"));
  const std::string path = directory_.file("damaged.model");
  const auto try_model = [&](const std::string& content) {
    write_text(path, content);
    const auto error = test::error_of([&] {
      const Tokenizer tokenizer(path);
      static_cast<void>(
          encoded(tokenizer, "the ship of Zürich ﬁne \u0301\u3042\U0001f642 ١ \xef\xbf\xbd"));
      for (std::uint32_t id = 0; id < tokenizer.vocabulary(); ++id)
        static_cast<void>(tokenizer.text_of({&id, 1}));
    });
    if (error) {
      EXPECT_EQ(error->code(), ExitCode::data) << error->what();
      EXPECT_NE(std::string(error->what()).find(path), std::string::npos) << error->what();
    }
    return error.has_value();
  };
  ASSERT_FALSE(try_model(whole));
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i)
    static_cast<void>(try_model(whole.substr(0, random() % whole.size())));
  EXPECT_TRUE(try_model("") && try_model("no model") && try_model(std::string(1000, '\n')) &&
              try_model(std::string(1000, '\xff')));
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string content = whole;
    // Half of them in the pieces and options, half in the table of characters.
    const std::size_t within = i % 2 == 0 ? 2500 : content.size();
    for (unsigned flips = 1 + random() % 8; flips > 0; --flips)
      content[random() % within] ^= static_cast<char>(1U << (random() % 8));
    refused += try_model(content) ? 1 : 0;
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace trireme
