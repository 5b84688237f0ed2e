// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "data/tokenizer/split_pattern.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::json;

// Ids must be dense, because there is a table by id.
constexpr std::uint64_t spare_ids = 4096, spread_of_ids = 16;
constexpr const char* gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

class SpecReader {
 public:
  SpecReader(const json& root, const std::string& path) : root_(root), path_(path) {}

  TokenizerSpec read() {
    read_model(root_.at("model"));
    read_added();
    if (const json normalizer = part(root_, "normalizer"); !normalizer.is_null())
      read_normalizer(normalizer);
    const json splitter = part(root_, "pre_tokenizer");
    if (splitter.is_null()) refuse("pre_tokenizer", "null", "ByteLevel, alone or in a Sequence");
    read_pre_tokenizer(splitter);
    if (!byte_level_)
      refuse("pre_tokenizer", "a Sequence without ByteLevel", "ByteLevel as its last member");
    return std::move(spec_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view found,
                           std::string_view supported) const {
    fail(ExitCode::data, "{}: {} is {}, which is not supported here; supported: {}", path_, what,
         found, supported);
  }
  [[noreturn]] void damaged(std::string_view what) const {
    fail(ExitCode::data, "{}: {}: the tokenizer is damaged; get it again", path_, what);
  }
  static json part(const json& of, const char* key) {
    const auto found = of.find(key);
    return found == of.end() ? json() : *found;
  }
  [[nodiscard]] static bool is_set(const json& of, const char* key) {
    const json value = part(of, key);
    return value.is_boolean() && value.get<bool>();
  }

  void read_model(const json& model) {
    const std::string type = model.value("type", "BPE");
    if (type != "BPE") refuse("model.type", type, "BPE");
    const json dropout = part(model, "dropout");
    if (!dropout.is_null() && dropout.get<double>() != 0)
      refuse("model.dropout", dropout.dump(), "null or 0");
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json value = part(model, key);
      if (!value.is_null() && !value.get<std::string>().empty())
        refuse(fmt::format("model.{}", key), value.dump(), "null");
    }
    spec_.whole_words = is_set(model, "ignore_merges");
    read_vocabulary(model.at("vocab"));
    read_merges(model.at("merges"));
  }

  void place(std::uint64_t id, std::string text, bool is_word) {
    if (id > last_id_) damaged(fmt::format("the token id {} is far too large", id));
    if (id >= spec_.token_text.size()) {
      spec_.token_text.resize(id + 1);
      spec_.is_word.resize(id + 1);
    }
    if (!spec_.token_text[id].empty()) damaged(fmt::format("two tokens have the id {}", id));
    spec_.token_text[id] = std::move(text);
    spec_.is_word[id] = is_word;
  }

  void read_vocabulary(const json& vocabulary) {
    std::array<bool, 256> found{};
    last_id_ = spread_of_ids * vocabulary.size() + spare_ids;
    for (const auto& [token, value] : vocabulary.items()) {
      if (token.empty()) continue;  // some have an empty token, which nothing produces
      const auto id = value.get<std::uint64_t>();
      ids_.emplace(token, static_cast<std::uint32_t>(id));
      auto bytes = bytes_of_letters(token);
      if (bytes && bytes->size() == 1) {
        const auto byte = static_cast<unsigned char>(bytes->front());
        found[byte] = true;
        spec_.byte_ids[byte] = static_cast<std::uint32_t>(id);
      }
      const bool is_word = bytes.has_value();
      place(id, is_word ? *std::move(bytes) : token, is_word);
    }
    model_tokens_ = vocabulary.size();
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool in_text = byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4);
      if (in_text && !found[byte])
        fail(ExitCode::data,
             "{}: model.vocab has no token for the byte 0x{:02x}: text with it would be lost; "
             "supported are vocabularies of all bytes (ByteLevel.alphabet() when they are trained)",
             path_, byte);
    }
  }

  [[nodiscard]] std::uint32_t id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      damaged(fmt::format("model.merges names '{}', which is not in model.vocab", token));
    return found->second;
  }

  // "a b" or ["a", "b"].
  void read_merges(const json& merges) {
    spec_.merges.reserve(merges.size());
    for (const json& merge : merges) {
      std::string left, right;
      if (merge.is_string()) {
        const auto& both = merge.get_ref<const std::string&>();
        const std::size_t space = both.find(' ');
        if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
          damaged(fmt::format("model.merges has '{}', which is not a pair", both));
        left = both.substr(0, space);
        right = both.substr(space + 1);
      } else {
        if (merge.size() != 2) damaged("model.merges has a list that is not a pair");
        left = merge.at(0).get<std::string>();
        right = merge.at(1).get<std::string>();
      }
      spec_.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
    }
  }

  void read_added() {
    const json tokens = part(root_, "added_tokens");
    std::uint32_t last = 0;
    for (const json& it : tokens) {
      AddedToken token{.text = it.at("content").get<std::string>(),
                       .single_word = is_set(it, "single_word"),
                       .strip_left = is_set(it, "lstrip"),
                       .strip_right = is_set(it, "rstrip"),
                       .normalized = is_set(it, "normalized")};
      const auto id = it.at("id").get<std::uint64_t>();
      if (token.text.empty()) damaged("added_tokens has an empty token");
      const auto known = ids_.find(token.text);
      // Counted as in the tokenizers library.
      const std::uint64_t expected = known != ids_.end()                           ? known->second
                                     : spec_.added.empty() || last < model_tokens_ ? model_tokens_
                                                                                   : last + 1;
      if (id != expected)
        fail(ExitCode::data,
             "{}: the added token '{}' has the id {}, but the tokenizers library gives it {}; save "
             "the file again with that library",
             path_, token.text, id, expected);
      token.id = static_cast<std::uint32_t>(id);
      if (known == ids_.end()) place(id, token.text, false);
      last = std::max(last, token.id);
      spec_.added.push_back(std::move(token));
    }
  }

  void read_normalizer(const json& normalizer) {
    const auto type = normalizer.at("type").get<std::string>();
    if (type == "Sequence") {
      for (const json& member : normalizer.at("normalizers"))
        read_normalizer(member);
    } else if (type == "NFC") {
      spec_.composes = true;
    } else {
      refuse("the normalizer", type, "NFC, alone or in a Sequence, or null");
    }
  }

  void read_pre_tokenizer(const json& it) {
    const auto type = it.at("type").get<std::string>();
    if (byte_level_)
      refuse("pre_tokenizer", fmt::format("{} after ByteLevel", type), "ByteLevel at the end");
    if (type == "Sequence") {
      for (const json& member : it.at("pretokenizers"))
        read_pre_tokenizer(member);
    } else if (type == "ByteLevel") {
      spec_.prefix_space = it.at("add_prefix_space").get<bool>();
      if (spec_.prefix_space && !spec_.splits.empty())
        refuse("pre_tokenizer.add_prefix_space", "true after another part of a Sequence", "false");
      if (it.value("use_regex", true)) add_split(gpt2_pattern, SplitBehavior::isolated, false);
      byte_level_ = true;
    } else if (type == "Digits") {
      add_split("\\p{N}",
                it.at("individual_digits").get<bool>() ? SplitBehavior::isolated
                                                       : SplitBehavior::contiguous,
                false);
    } else if (type == "Split") {
      read_split(it);
    } else {
      refuse("pre_tokenizer", type, "Split, Digits and ByteLevel, alone or in a Sequence");
    }
  }

  void read_split(const json& it) {
    constexpr std::array<std::string_view, 5> behaviors = {
        "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const auto name = it.at("behavior").get<std::string>();
    const auto behavior = std::ranges::find(behaviors, name);
    if (behavior == behaviors.end())
      refuse("the behavior of a Split", name, fmt::format("{}", fmt::join(behaviors, ", ")));
    const json& pattern = it.at("pattern");
    const auto text = pattern.find("String") != pattern.end()
                          ? literal_pattern(pattern.at("String").get<std::string>())
                          : pattern.at("Regex").get<std::string>();
    add_split(text, static_cast<SplitBehavior>(behavior - behaviors.begin()), is_set(it, "invert"));
  }

  void add_split(const std::string& pattern, SplitBehavior behavior, bool invert) {
    spec_.splits.push_back({to_pcre2(pattern, path_), behavior, invert});
  }

  const json& root_;
  const std::string& path_;
  TokenizerSpec spec_;
  std::unordered_map<std::string, std::uint32_t> ids_;  // of the model
  std::uint64_t model_tokens_ = 0, last_id_ = 0;
  bool byte_level_ = false;
};

}  // namespace

std::uint64_t checksum_of(const TokenizerSpec& spec) {
  Checksum all;
  const auto add = [&](std::string_view text) {  // the length prefix separates texts
    const auto size = static_cast<std::uint64_t>(text.size());
    all.update(std::as_bytes(std::span(&size, 1)));
    all.update(std::as_bytes(std::span(text)));
  };
  for (std::size_t id = 0; id < spec.token_text.size(); ++id)
    add(fmt::format("{}{}", spec.is_word[id] ? 'w' : 't', spec.token_text[id]));
  for (const TokenMerge& merge : spec.merges)
    add(fmt::format("m{} {} {}", merge.left, merge.right, merge.joined));
  for (const AddedToken& token : spec.added)
    add(fmt::format("a{} {} {} {} {} {}", token.id, token.single_word, token.strip_left,
                    token.strip_right, token.normalized, token.text));
  for (const SplitRule& rule : spec.splits)
    add(fmt::format("s{} {} {}", static_cast<int>(rule.behavior), rule.invert, rule.pattern));
  add(fmt::format("{} {} {}", spec.composes, spec.prefix_space, spec.whole_words));
  return all.value();
}

TokenizerSpec parse_tokenizer(const std::string& text, const std::string& path) {
  try {
    const json root = parse_json(text);
    return SpecReader(root, path).read();
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}: cannot be read as a tokenizer.json: {}", path, error.what());
  }
}

}  // namespace trireme
