// SPDX-License-Identifier: Apache-2.0
// Text through a tokenizer, and JSON lines, into shards.
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "data/pack/pack_text.h"
#include "data/shard/shard_set.h"
#include "data/tokenizer/tokenizer.h"
#include "data/verify.h"
#include "tests/data/make_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::write_text;

struct Packed {
  std::vector<std::uint32_t> ids{};
  std::string counted{};                   // per token: + for a target, else -
  std::vector<std::uint64_t> documents{};  // their starts
  ShardHeader header{};
};

template <typename Token>
void append_ids(const ShardSet& set, std::size_t which, std::vector<std::uint32_t>& ids) {
  std::vector<Token> tokens(set.shards()[which].header.count);
  set.read(which, 0, std::as_writable_bytes(std::span(tokens)), {});
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

Packed packed_in(const std::string& directory) {
  for (const ShardReport& report : verify_dataset(directory))
    EXPECT_EQ(report.problem, "");
  const ShardSet set(list_shards(directory, ""));
  Packed all{.header = set.shards().front().header};
  for (std::size_t s = 0; s < set.shards().size(); ++s) {
    const Shard& shard = set.shards()[s];
    std::vector<std::uint64_t> offsets(shard.header.documents + 1);
    set.read_index(s, 0, std::as_writable_bytes(std::span(offsets)), {});
    for (std::size_t i = shard.header.continues ? 1 : 0; i + 1 < offsets.size(); ++i)
      all.documents.push_back(all.ids.size() + offsets[i]);
    shard.header.dtype == DType::u16 ? append_ids<std::uint16_t>(set, s, all.ids)
                                     : append_ids<std::uint32_t>(set, s, all.ids);
    std::vector<std::byte> mask(shard.mask_bytes());
    if (!mask.empty()) set.read_mask(s, 0, mask, {});
    for (std::uint64_t i = 0; !mask.empty() && i < shard.header.count; ++i)
      all.counted += (mask[i / 8] >> (i % 8) & std::byte{1}) == std::byte{0} ? '-' : '+';
  }
  return all;
}

class PackTokens : public testing::Test {
 protected:
  PackTokens() {
    test::TokenizerText text;
    text.merges = {"a b", "\u0120 ab", "ab ab", "\u010a \u010a"};
    text.added = {{.text = "<|end|>"}, {.text = "<|begin|>"}};
    write_text(tokenizer_, text.json());
  }
  [[nodiscard]] std::string input(const std::string& name, const std::string& text) const {
    write_text(directory_.file(name), text);
    return directory_.file(name);
  }
  [[nodiscard]] PackTextOptions options(std::vector<std::string> inputs) const {
    return {.inputs = std::move(inputs), .output = out_, .tokenizer = tokenizer_, .threads = 2};
  }
  // The tokens of each text alone.
  [[nodiscard]] std::vector<std::uint32_t> encoded(const std::vector<std::string>& texts) const {
    const Tokenizer tokenizer(tokenizer_);
    TextEncoder encoder(tokenizer);
    std::vector<std::uint32_t> ids;
    for (const std::string& text : texts)
      encoder.encode(text, ids);
    return ids;
  }

  test::TemporaryDirectory directory_;
  std::string out_ = directory_.file("out"), tokenizer_ = directory_.file("tokenizer.json");
};

TEST_F(PackTokens, WritesTheTokensAndTheTokenizerOfEachDocument) {
  static_cast<void>(pack_text(options({input("a", "abab ab"), input("b", "\u00e9 ab")})));

  const Packed all = packed_in(out_);

  EXPECT_EQ(all.ids, encoded({"abab ab", "\u00e9 ab"}));
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(all.header.tokenizer, Tokenizer(tokenizer_).name());
  EXPECT_TRUE(all.header.tokenizer.starts_with("huggingface:tokenizer.json:xxh3="));
  EXPECT_EQ(all.header.vocabulary, 262U);
  EXPECT_EQ(all.header.dtype, DType::u16);
}

TEST_F(PackTokens, KeepsSeparatorsAndAddsTokensAroundDocuments) {
  PackTextOptions with = options({input("a", "ab\n\nab ab\n\nab")});
  with.separator = "\n\n";
  with.begin_token = "<|begin|>";
  with.end_token = "<|end|>";
  with.dtype = DType::u32;
  static_cast<void>(pack_text(with));

  const Packed all = packed_in(out_);

  EXPECT_EQ(Tokenizer(tokenizer_).text_of(all.ids),
            "<|begin|>ab\n\n<|end|><|begin|>ab ab\n\n<|end|><|begin|>ab<|end|>");
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 4, 9}));
  EXPECT_EQ(all.header.dtype, DType::u32);
}

TEST_F(PackTokens, CutsLongDocumentsWithoutChangingTheirTokens) {
  std::string text;
  for (int i = 0; text.size() < (5U << 20); ++i)
    text += i % 7 == 0 ? "abab\n\n" : i % 11 == 0 ? " \u00e9ab" : " ab" + std::string(i % 3, ' ');
  PackTextOptions with = options({input("a", text), input("b", "ab")});
  with.end_token = "<|end|>";
  with.shard_tokens = 100'000;
  static_cast<void>(pack_text(with));

  const Packed all = packed_in(out_);

  const std::vector<std::uint32_t> whole = encoded({text, "<|end|>", "ab", "<|end|>"});
  EXPECT_EQ(all.ids, whole);
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, whole.size() - 2}));
}

TEST_F(PackTokens, JoinsPartsWhereACutWouldHaveChangedTokens) {
  // The pattern takes a word and the following space as one token, if documents are cut.
  test::TokenizerText text;
  text.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[a-z]+ ?"},)"
      R"("behavior":"Isolated","invert":false},)"
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
  text.merges = {"a b", "ab \u0120"};
  write_text(tokenizer_, text.json());
  std::string words;
  while (words.size() < (3U << 20) + 5)
    words += "ab ";
  static_cast<void>(pack_text(options({input("a", words)})));
  EXPECT_EQ(packed_in(out_).ids, encoded({words}));
}

TEST_F(PackTokens, CutsTheValidationFractionInTokens) {
  PackTextOptions with = options({input("a", "ab ab ab ab ab ab ab ab ab ab")});
  with.validation = 0.2;
  const PackedText packed = pack_text(with);
  ASSERT_EQ(packed.splits.size(), 2U);
  EXPECT_EQ(packed.splits[0].samples, 8U);
  EXPECT_EQ(packed.splits[1].samples, 2U);
  EXPECT_TRUE(packed_in(out_ + "/validation").header.continues);
}

TEST_F(PackTokens, ReplacesOrRefusesBytesThatAreNotUtf8) {
  PackTextOptions with = options({input("a", "ab \xff ab")});
  EXPECT_EQ(pack_text(with).replaced, 1U);
  EXPECT_EQ(packed_in(out_).ids, encoded({"ab \uFFFD ab"}));

  with.refuse_invalid = with.force = true;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, with.inputs[0], "byte 3");
}

TEST_F(PackTokens, TakesTheFieldOfEachJsonLine) {
  PackTextOptions with =
      options({input("a.jsonl",
                     "{\"text\":\"ab ab\",\"n\":1}\n\n"
                     "{\"meta\":{\"text\":\"no\"},\"text\":\"\\u00e9 <|end|>\"}\r\n"
                     "{\"text\":\"\"}\n{\"text\":\"abab\"}")});
  with.json_field = "text";
  with.end_token = "<|end|>";
  static_cast<void>(pack_text(with));
  const Packed all = packed_in(out_);
  EXPECT_EQ(all.ids, encoded({"ab ab", "<|end|>", "\u00e9 <|end|>", "<|end|>", "abab", "<|end|>"}));
  EXPECT_EQ(all.documents.size(), 3U);

  with.tokenizer = with.end_token = "";
  with.force = true;
  static_cast<void>(pack_text(with));
  const Packed bytes = packed_in(out_);
  EXPECT_EQ(std::string(bytes.ids.begin(), bytes.ids.end()), "ab ab\xc3\xa9 <|end|>abab");
  EXPECT_EQ(bytes.header.tokenizer, "bytes");
}

TEST_F(PackTokens, NamesBadJsonLinesOrLeavesThemOut) {
  std::string lines;
  for (int i = 0; i < 30'000; ++i)
    lines += "{\"text\":\"ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab\"}\n";
  PackTextOptions with = options({input(
      "a",
      lines +
          "{\"text\":5}\n{\"text\":\"ab\"}\n{\"text\":\n[]\n{\"x\":\"\"}\n{\"text\":\"\xff\"}\n")});
  with.json_field = "text";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); },
      with.inputs[0] + ":30001: has a number in its field 'text'", "--skip-bad");
  EXPECT_FALSE(std::filesystem::exists(out_));

  with.skip_bad = true;
  const PackedText packed = pack_text(with);

  EXPECT_EQ(packed.splits[0].documents, 30'001U);
  ASSERT_EQ(packed.skipped.size(), 5U);
  EXPECT_EQ(packed.skipped[0].find(with.inputs[0] + ":30001: "), 0U);
  EXPECT_EQ(packed.skipped[1].find(with.inputs[0] + ":30003: is not JSON"), 0U);
  EXPECT_EQ(packed.skipped[2].find(with.inputs[0] + ":30004: is a list"), 0U);
  EXPECT_EQ(packed.skipped[3].find(with.inputs[0] + ":30005: has no field 'text'"), 0U);
  EXPECT_EQ(packed.skipped[4].find(with.inputs[0] + ":30006: is not JSON"), 0U);
}

TEST_F(PackTokens, MasksPromptsAndCountsCompletions) {
  PackTextOptions with = options({input("a.jsonl",
                                        "{\"prompt\":\"ab ab\",\"completion\":\" ab\",\"id\":1}\n"
                                        "{\"completion\":\"abab\",\"prompt\":\"\"}\n")});
  with.pairs = true;
  with.begin_token = "<|begin|>";
  with.end_token = "<|end|>";
  with.shard_tokens = 4;
  const PackedText packed = pack_text(with);
  const Packed all = packed_in(out_);
  EXPECT_EQ(all.ids,
            encoded({"<|begin|>", "ab ab", " ab", "<|end|>", "<|begin|>", "abab", "<|end|>"}));
  EXPECT_EQ(all.counted, "---++-++");
  EXPECT_EQ(all.documents, (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(packed.splits[0].counted, 4U);

  with.tokenizer = with.begin_token = with.end_token = "";
  with.force = true;
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).counted, "-----+++++++") << "bytes";
}

TEST_F(PackTokens, WritesConversationsByTheirTemplate) {
  test::TokenizerText text;
  text.merges = {"a b", "\u010a \u010a", "\u010a a"};  // the last reaches across a header's end
  text.added = {{.text = "<|im_start|>"},        {.text = "<|im_end|>"},
                {.text = "<|start_header_id|>"}, {.text = "<|end_header_id|>"},
                {.text = "<|eot_id|>"},          {.text = "<|begin|>"},
                {.text = "<|begin_of_text|>"}};
  write_text(tokenizer_, text.json());
  PackTextOptions with =
      options({input("a.jsonl",
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},"
                     "{\"role\":\"assistant\",\"content\":\"\\n ab\\u00a0\"}]}\n")});
  with.chat_template = ChatTemplate::chatml;
  static_cast<void>(pack_text(with));
  const Packed chatml = packed_in(out_);
  // One token contains the line feeds of header and content: it counts.
  EXPECT_EQ(chatml.ids, encoded({"<|im_start|>user\nab<|im_end|>\n"
                                 "<|im_start|>assistant\n\n ab\u00a0<|im_end|>\n"}));
  EXPECT_EQ(chatml.counted, std::string(19, '-') + "++++++-");

  with.chat_template = ChatTemplate::llama3;
  with.force = true;
  for (const std::string given : {"", "<|begin|>", "<|begin_of_text|>"}) {
    with.begin_token = given;
    static_cast<void>(pack_text(with));
    const Packed llama = packed_in(out_);
    EXPECT_EQ(llama.ids,
              encoded({(given.empty() ? "<|begin_of_text|>" : given) +
                       "<|start_header_id|>user<|end_header_id|>\n\nab<|eot_id|>"
                       "<|start_header_id|>assistant<|end_header_id|>\n\nab<|eot_id|>"}));
    EXPECT_EQ(llama.counted, std::string(llama.ids.size() - 2, '-') + "++");
  }
}

TEST_F(PackTokens, TakesTokensOfConversationsThatAreRenderedElsewhere) {
  write_text(tokenizer_, test::TokenizerText{}.json());
  PackTextOptions with = options({input("a.jsonl", "{\"ids\":[5,6,7],\"learn\":[0,1,1]}\n")});
  with.chat_template = ChatTemplate::rendered;
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).ids, (std::vector<std::uint32_t>{5, 6, 7}));
  EXPECT_EQ(packed_in(out_).counted, "-++");

  with.force = true;
  for (const auto& [line, part] :
       {std::pair("{\"ids\":[5],\"learn\":[]}", "equal length"), std::pair("[]", "equal length"),
        std::pair("{\"ids\":[256],\"learn\":[1]}", "ids are below 256"),
        std::pair("{\"ids\":[5],\"learn\":[2]}", "learn is 0 or 1"),
        std::pair("{\"ids\":[5],\"learn\":[0]}", "no token is a target")}) {
    with.inputs = {input("b.jsonl", std::string(line) + "\n")};
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, "b.jsonl:1: ", part);
  }
}

TEST_F(PackTokens, NamesLinesThatAreNoDialogues) {
  test::TokenizerText text;
  text.added = {{.text = "<|im_start|>"}, {.text = "<|im_end|>"}};
  write_text(tokenizer_, text.json());
  const auto skipped = [&](const std::string& line, bool pairs) {
    PackTextOptions with = options({input(
        "a.jsonl", "\n" + line + "\n" +
                       (pairs ? "{\"prompt\":\"\",\"completion\":\"a\"}"
                              : "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"}]}"))});
    with.pairs = pairs;
    if (!pairs) with.chat_template = ChatTemplate::chatml;
    with.force = true;
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, with.inputs[0] + ":2: ");
    with.skip_bad = true;
    const PackedText packed = pack_text(with);
    EXPECT_EQ(packed.splits[0].documents, 1U);
    return packed.skipped.size() == 1 ? packed.skipped[0] : "";
  };
  const auto expect_part = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto message = [](const std::string& fields) {
    return "{\"messages\":[{" + fields + "}]}";
  };
  expect_part(skipped("{\"prompt\":\"a\"}", true), "no field 'completion'");
  expect_part(skipped("{\"prompt\":1,\"completion\":\"a\"}", true),
              "a number in its field 'prompt'");
  expect_part(skipped("{\"prompt\":\"a\",\"completion\":\"\"}", true), "an empty completion");
  expect_part(skipped("[]", false), "is array, not an object");
  expect_part(skipped("{\"messages\":", false), "is not JSON");
  expect_part(skipped("{}", false), "no field 'messages'");
  expect_part(skipped("{\"messages\":5}", false), "number in its field 'messages'");
  expect_part(skipped("{\"messages\":[]}", false), "no message of the assistant");
  expect_part(skipped("{\"messages\":[7]}", false), "message 1 is not an object");
  expect_part(skipped(message("\"role\":\"user\",\"content\":\"a\""), false),
              "no message of the assistant");
  expect_part(skipped(message("\"role\":\"bot\",\"content\":\"a\""), false),
              "message 1 has the role 'bot'; roles are system, user, assistant");
  expect_part(skipped(message("\"content\":\"a\""), false), "message 1 has no field 'role'");
  expect_part(skipped(message("\"role\":\"assistant\",\"content\":null"), false),
              "message 1 has null in its field 'content'");
}

TEST_F(PackTokens, UnpacksGzipAndNamesDamagedFiles) {
  const std::string path = directory_.file("a.jsonl.gz");
  for (const char* const line : {"{\"text\":\"ab\"}\n", "{\"text\":\" ab\"}\n"}) {  // two members
    const gzFile file = gzopen(path.c_str(), "ab");
    ASSERT_GT(gzputs(file, line), 0);
    ASSERT_EQ(gzclose(file), Z_OK);
  }
  PackTextOptions with = options({path});
  with.json_field = "text";
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).ids, encoded({"ab", " ab"}));

  const std::string whole = test::read_text(path);
  with.force = true;
  write_text(path, whole + std::string(1000, '\0') + whole + std::string(3, '\0'));  // filled up
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).ids, encoded({"ab", " ab", "ab", " ab"}));
  with.json_field = with.tokenizer = "";  // one token per byte
  static_cast<void>(pack_text(with));
  const std::string lines = "{\"text\":\"ab\"}\n{\"text\":\" ab\"}\n", twice = lines + lines;
  EXPECT_EQ(packed_in(out_).ids, (std::vector<std::uint32_t>(twice.begin(), twice.end())));
  with.json_field = "text";
  write_text(path, whole.substr(0, whole.size() - 5));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, path, "ends early");
  write_text(path, whole.substr(0, 14) + "xxxx" + whole.substr(18));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, path, "damaged");
}

TEST_F(PackTokens, UnpacksZstdAndNamesDamagedFiles) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    lines += "{\"text\":\"ab " + std::to_string(i) + "\"}\n";
  std::string packed(ZSTD_compressBound(lines.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), lines.data(), lines.size(), 3));
  write_text(directory_.file("plain.jsonl"), lines + lines);
  PackTextOptions with = options({directory_.file("plain.jsonl")});
  with.json_field = "text";
  static_cast<void>(pack_text(with));
  const std::vector<std::uint32_t> expected = packed_in(out_).ids;

  const std::string path = directory_.file("a.jsonl.zst");
  write_text(path, packed + packed);  // two frames
  with.inputs = {path};
  with.force = true;
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).ids, expected);
  write_text(path, std::string("\x50\x2a\x4d\x18\4\0\0\0what", 12) + packed + packed);
  static_cast<void>(pack_text(with));
  EXPECT_EQ(packed_in(out_).ids, expected) << "a frame to skip in front, as pzstd writes";

  const std::string tar = "a" + std::string(256, '\0') + "ustar";
  std::string archive(ZSTD_compressBound(tar.size()), '\0');
  archive.resize(ZSTD_compress(archive.data(), archive.size(), tar.data(), tar.size(), 3));
  write_text(path, archive);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, path, "unpacks to", "tar -xf");
  write_text(path, packed.substr(0, packed.size() - 5));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, path, "ends early");
  packed[4] = static_cast<char>(packed[4] ^ 8);  // a bit that is reserved
  write_text(path, packed);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_text(with)); }, path, "damaged");
}

TEST_F(PackTokens, RefusesOptionsThatCannotBeHonoured) {
  const auto refused = [&](auto&& change, const std::string& part) {
    PackTextOptions with = options({input("a", "ab")});
    change(with);
    expect_error(
        ExitCode::config, [&] { static_cast<void>(pack_text(with)); }, part);
    EXPECT_FALSE(std::filesystem::exists(out_));
  };
  refused([](auto& it) { it.end_token = "<|none|>"; }, "--end-token: '<|none|>'");
  refused([](auto& it) { it.tokenizer = "", it.begin_token = "x"; }, "--begin-token");
  refused([](auto& it) { it.skip_bad = true; }, "--skip-bad");
  refused([](auto& it) { it.pairs = true, it.json_field = "text"; }, "--pairs");
  refused([](auto& it) { it.pairs = true, it.separator = "x"; }, "--document-separator");
  refused([](auto& it) { it.chat_template = ChatTemplate::chatml; }, "'<|im_start|>' is not in");
  refused([](auto& it) { it.chat_template = ChatTemplate::llama3, it.tokenizer = ""; },
          "--chat-template");
  refused([](auto& it) { it.json_field = "text", it.separator = "x"; }, "--json-field");
  refused([](auto& it) { it.tokenizer = "", it.refuse_invalid = true; }, "--invalid-utf8");
}

}  // namespace
}  // namespace trireme
