// SPDX-License-Identifier: Apache-2.0
// Small tokenizer.json files of all bytes, some merges and some added tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::test {

struct TokenizerText {
  struct Added {
    std::string text{};
    bool single_word = false, strip_left = false, strip_right = false;
    int id_offset = 0;  // from the id that it should have
  };
  std::vector<std::string> merges;  // "a b"
  bool pairs = false;               // written as ["a", "b"]
  std::vector<std::string> extra_words;
  std::vector<Added> added;
  bool whole_words = false;
  std::string normalizer = "null";
  std::string pre_tokenizer =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  std::string decoder = pre_tokenizer;
  std::string post_processor = "null";
  std::string model_type = "BPE";
  std::string byte_fallback = "false", version = "\"1.0\"";
  std::string left_out;  // a letter that is not in the vocabulary

  [[nodiscard]] std::string json() const {
    std::vector<std::string> tokens;
    for (std::uint32_t byte = 0, next = 256; byte < 256; ++byte) {
      const bool printed = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const std::string letter = utf8(printed ? byte : next++);
      if (letter != left_out) tokens.push_back(letter);
    }
    tokens.insert(tokens.end(), extra_words.begin(), extra_words.end());
    std::string merge_text;
    for (const std::string& merge : merges) {
      const std::size_t space = merge.find(' ');
      const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
      if (right != "q\u00e4") tokens.push_back(left + right);
      merge_text += merge_text.empty() ? "" : ",";
      merge_text += pairs ? "[" + quoted(left) + "," + quoted(right) + "]" : quoted(merge);
    }
    std::string vocabulary;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      vocabulary += (i == 0 ? "" : ",") + quoted(tokens[i]) + ":" + std::to_string(i);
    std::string added_text;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const Added& it = added[i];
      added_text += (i == 0 ? "" : ",") + std::string(R"({"id":)") +
                    std::to_string(static_cast<int>(tokens.size() + i) + it.id_offset) +
                    R"(,"content":)" + quoted(it.text) + R"(,"single_word":)" +
                    word(it.single_word) + R"(,"lstrip":)" + word(it.strip_left) + R"(,"rstrip":)" +
                    word(it.strip_right) + R"(,"normalized":false,"special":true})";
    }
    return R"({"version":)" + version + R"(,"truncation":null,"padding":null,"added_tokens":[)" +
           added_text + R"(],"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
           R"(,"post_processor":)" + post_processor + R"(,"decoder":)" + decoder +
           R"(,"model":{"byte_fallback":)" + byte_fallback + R"(,"type":)" + quoted(model_type) +
           R"(,"dropout":null,"unk_token":null,"ignore_merges":)" + word(whole_words) +
           R"(,"vocab":{)" + vocabulary + R"(},"merges":[)" + merge_text + "]}}";
  }

 private:
  static std::string utf8(std::uint32_t code) {
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  }
  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char letter : text) {
      if (letter == '"' || letter == '\\') result += '\\';
      result += letter;
    }
    return result + "\"";
  }
  static std::string word(bool value) { return value ? "true" : "false"; }
};

}  // namespace trireme::test
