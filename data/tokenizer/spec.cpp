// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

// The library reads numbers less exactly, which decides between equal sums: digits, times or over a
// power of ten.
double read_by_library(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                 std::chars_format::scientific);
  std::uint64_t whole = 0;
  int exponent = 0, after_point = 0;
  const char* at = text.data();
  for (bool point = false; at != end.ptr && *at != 'e'; ++at) {
    if (*at == '.') {
      point = true;
      continue;
    }
    whole = 10 * whole + static_cast<std::uint64_t>(*at - '0');
    after_point += point ? 1 : 0;
  }
  if (at == end.ptr) return value;  // infinite, or no number
  at += at[1] == '+' ? 2 : 1;
  std::from_chars(at, end.ptr, exponent);
  exponent -= after_point;
  const auto digits = static_cast<double>(whole);
  const double power = std::pow(10.0, std::abs(exponent));
  return std::copysign(exponent < 0 ? digits / power : digits * power, value);
}

class SpecReader {
 public:
  SpecReader(const json& root, const std::string& path) : root_(root), path_(path) {}

  TokenizerSpec read() {
    const json splitter = part(root_, "pre_tokenizer");
    const bool bytes = names_byte_level(splitter);
    read_model(root_.at("model"), bytes);
    read_added();
    for (const char* key : {"padding", "truncation"})  // of others' programs; not used here
      if (const json value = part(root_, key); !value.is_null())
        static_cast<void>(typed(value, json::value_t::object, key).at("strategy"));
    if (root_.contains("version") && root_.at("version") != "1.0")
      refuse("version", root_.at("version").dump(), "\"1.0\"");
    const json post_processor = part(root_, "post_processor"), decoder = part(root_, "decoder");
    for (const json& typed_part : {post_processor, decoder})
      if (!typed_part.is_null()) static_cast<void>(typed_part.at("type").get<std::string>());
    spec_.post_processor = post_processor.dump();
    if (spec_.model != TokenModel::byte_pairs) {
      spec_.normalizer = part(root_, "normalizer").dump();
      spec_.pre_tokenizer = splitter.dump();
      spec_.decoder = decoder.dump();
      return std::move(spec_);
    }
    if (part(decoder, "type") == "ByteLevel") check_byte_level(decoder);
    if (const json normalizer = part(root_, "normalizer"); !normalizer.is_null())
      read_normalizer(normalizer);
    read_pre_tokenizer(splitter);
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
  [[nodiscard]] bool is_set(const json& of, const char* key) const {
    return !part(of, key).is_null() && stated(of, key);
  }
  // The tokenizers library has no default here: what lacks the flag is refused as it does.
  [[nodiscard]] bool stated(const json& of, const char* key) const {
    const json value = part(of, key);
    if (!value.is_boolean())
      refuse(key, of.contains(key) ? value.dump() : "missing", "true and false");
    return value.get<bool>();
  }
  // JSON's own conversions take true, 3.7 and -1 for whole numbers too.
  [[nodiscard]] std::uint64_t whole(const json& value, std::string_view what) const {
    if (!value.is_number_unsigned()) refuse(what, value.dump(), "0, 1, 2 ...");
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] const json& typed(const json& value, json::value_t type,
                                  std::string_view what) const {
    if (value.type() != type) refuse(what, value.type_name(), json(type).type_name());
    return value;
  }

  [[nodiscard]] static bool names_byte_level(const json& splitter) {
    if (splitter.is_null()) return false;
    if (splitter.at("type") != "Sequence") return splitter.at("type") == "ByteLevel";
    return std::ranges::any_of(splitter.at("pretokenizers").get_ref<const json::array_t&>(),
                               names_byte_level);
  }

  void check_byte_level(const json& it) const {
    for (const char* key : {"add_prefix_space", "trim_offsets"})
      static_cast<void>(stated(it, key));
    if (it.contains("use_regex")) static_cast<void>(stated(it, "use_regex"));
  }

  void read_model(const json& model, bool bytes) {
    const std::string type = model.value("type", "BPE");
    if (bytes && type != "BPE")
      refuse("model.type", fmt::format("{} with the pre_tokenizer ByteLevel", type), "BPE");
    if (type == "BPE") return read_pairs(model, bytes);
    if (type != "WordPiece" && type != "Unigram")
      refuse("model.type", type, "BPE, WordPiece and Unigram");
    spec_.model = type == "WordPiece" ? TokenModel::word_pieces : TokenModel::unigram;
    if (type == "WordPiece") {
      spec_.continuing = model.at("continuing_subword_prefix").get<std::string>();
      spec_.longest_word =
          whole(model.at("max_input_chars_per_word"), "model.max_input_chars_per_word");
      read_words(typed(model.at("vocab"), json::value_t::object, "model.vocab"));
      read_unknown(model.at("unk_token"));
    } else {
      read_scores(model);
    }
  }

  void read_pairs(const json& model, bool bytes) {
    const json dropout = part(model, "dropout");
    if (!dropout.is_null() && (!dropout.is_number() || dropout.get<double>() != 0))
      refuse("model.dropout", dropout.dump(), "null or 0");
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json value = part(model, key);
      if (!value.is_null() && !value.get<std::string>().empty())
        refuse(fmt::format("model.{}", key), value.dump(), "null");
    }
    spec_.whole_words = is_set(model, "ignore_merges");
    spec_.fuse_unknown = is_set(model, "fuse_unk");
    if (bytes) {
      read_vocabulary(typed(model.at("vocab"), json::value_t::object, "model.vocab"));
      // Without effect where every byte has a token, but of the right types all the same.
      static_cast<void>(is_set(model, "byte_fallback"));
      if (const json unknown = part(model, "unk_token"); !unknown.is_null())
        static_cast<void>(typed(unknown, json::value_t::string, "model.unk_token"));
    } else {
      spec_.model = TokenModel::character_pairs;
      read_words(typed(model.at("vocab"), json::value_t::object, "model.vocab"));
      read_byte_fallback(model);
      if (!spec_.byte_fallback) read_unknown(part(model, "unk_token"));
    }
    read_merges(typed(model.at("merges"), json::value_t::array, "model.merges"));
  }

  void read_words(const json& vocabulary) {
    last_id_ = spread_of_ids * vocabulary.size() + spare_ids;
    model_tokens_ = vocabulary.size();
    for (const auto& [token, value] : vocabulary.items()) {
      const std::uint64_t id = whole(value, "an id of model.vocab");
      if (token.empty()) continue;
      place(id, token, true);
      ids_.emplace(token, static_cast<std::uint32_t>(id));
    }
  }

  void read_scores(const json& model) {
    const json& vocabulary = typed(model.at("vocab"), json::value_t::array, "model.vocab");
    model_tokens_ = vocabulary.size();
    last_id_ = spread_of_ids * model_tokens_ + spare_ids;
    for (const json& entry : vocabulary) {
      const auto token = entry.at(0).get<std::string>();
      const std::uint64_t id = spec_.scores.size();
      spec_.scores.push_back(read_by_library(entry.at(1).get<double>()));
      if (token.empty()) damaged("model.vocab has an empty token");
      place(id, token, true);
      ids_.insert_or_assign(token, static_cast<std::uint32_t>(id));
    }
    const json unknown = part(model, "unk_id");
    if (!unknown.is_number_unsigned() || unknown >= spec_.scores.size())
      refuse("model.unk_id", unknown.dump(), "an id of model.vocab");
    spec_.unknown = unknown.get<std::uint32_t>();
    read_byte_fallback(model);
  }

  void read_unknown(const json& token) {
    if (!token.is_string() || !ids_.contains(token.get<std::string>()))
      refuse("model.unk_token", token.dump(),
             "a token of model.vocab, without which text could be lost, or byte_fallback");
    spec_.unknown = ids_.at(token.get<std::string>());
  }

  void read_byte_fallback(const json& model) {
    spec_.byte_fallback = is_set(model, "byte_fallback");
    for (unsigned byte = 0; spec_.byte_fallback && byte < 256; ++byte) {
      const auto found = ids_.find(fmt::format("<0x{:02X}>", byte));
      if (found == ids_.end())
        refuse("model.byte_fallback", fmt::format("true without the token <0x{:02X}>", byte),
               "tokens of all 256 bytes");
      spec_.byte_ids[byte] = found->second;
    }
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
      const std::uint64_t id = whole(value, "an id of model.vocab");
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
        if (!merge.is_array() || merge.size() != 2)
          damaged("model.merges has a list that is not a pair");
        left = merge.at(0).get<std::string>();
        right = merge.at(1).get<std::string>();
      }
      spec_.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
    }
  }

  void read_added() {
    const json tokens = part(root_, "added_tokens");
    std::uint32_t last = 0;
    if (root_.contains("added_tokens"))  // the library refuses null, too
      static_cast<void>(typed(tokens, json::value_t::array, "added_tokens"));
    for (const json& it : tokens) {
      AddedToken token{.text = it.at("content").get<std::string>(),
                       .single_word = stated(it, "single_word"),
                       .strip_left = stated(it, "lstrip"),
                       .strip_right = stated(it, "rstrip"),
                       .normalized = stated(it, "normalized")};
      const std::uint64_t id = whole(it.at("id"), "an id of added_tokens");
      static_cast<void>(stated(it, "special"));
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
      for (const json& member : normalizer.at("normalizers").get_ref<const json::array_t&>())
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
      for (const json& member : it.at("pretokenizers").get_ref<const json::array_t&>())
        read_pre_tokenizer(member);
    } else if (type == "ByteLevel") {
      check_byte_level(it);
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
    const auto name = it.at("behavior").get<std::string>();
    const auto behavior = split_behavior_of(name);
    if (!behavior) refuse("the behavior of a Split", name, split_behavior_names());
    const json& pattern = it.at("pattern");
    const auto text = pattern.find("String") != pattern.end()
                          ? literal_pattern(pattern.at("String").get<std::string>())
                          : pattern.at("Regex").get<std::string>();
    add_split(text, *behavior, stated(it, "invert"));
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

constexpr std::array<std::string_view, 5> behaviors = {"Isolated", "Removed", "MergedWithPrevious",
                                                       "MergedWithNext", "Contiguous"};

}  // namespace

std::optional<SplitBehavior> split_behavior_of(std::string_view name) {
  const auto* const found = std::ranges::find(behaviors, name);
  if (found == behaviors.end()) return std::nullopt;
  return static_cast<SplitBehavior>(found - behaviors.begin());
}

std::string split_behavior_names() {
  return fmt::format("{}", fmt::join(behaviors, ", "));
}

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
  if (spec.model == TokenModel::byte_pairs) return all.value();
  add(fmt::format("{} {} {} {} {} {}", static_cast<int>(spec.model), spec.unknown,
                  spec.fuse_unknown, spec.byte_fallback, spec.longest_word, spec.continuing));
  for (const double score : spec.scores)
    add(fmt::format("p{}", score));
  for (const std::string& part : {spec.normalizer, spec.pre_tokenizer})
    add(part);
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
