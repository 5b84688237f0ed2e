// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/labelled_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/pack/progress.h"
#include "data/pack/staged_directory.h"
#include "data/pack/text/batch_cutter.h"
#include "data/pack/text/pack_tokens.h"
#include "data/sets/id_names.h"
#include "data/shard/shard_writer.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// A line's problem; the reader names the place.
struct BadLine {
  std::string problem;
};

// Numbers of named classes: in the order of their first line until all are known.
class ClassNumbers {
 public:
  explicit ClassNumbers(std::vector<std::string> known) : names_(std::move(known)) {
    fixed_ = !names_.empty();
    for (std::size_t i = 0; i < names_.size(); ++i)
      numbers_.emplace(names_[i], static_cast<std::int32_t>(i));
  }

  std::int32_t of(const Json& label) {
    const bool named = label.is_string();
    if (!named && (!label.is_number_integer() || label < 0 || label >= 1'000'000))
      throw BadLine{fmt::format("label {} is neither a name nor a number from 0 on", label.dump())};
    if (!fixed_ && named_.value_or(named) != named)
      throw BadLine{
          fmt::format("label {}: some labels are names and others numbers", label.dump())};
    named_ = named;
    if (!named) return number(label.get<std::int32_t>());
    const auto name = label.get<std::string>();
    if (name.empty() || name.find_first_of(std::string_view("\n\0", 2)) != std::string::npos)
      throw BadLine{fmt::format("label {} is no name of one line without NUL", label.dump())};
    const auto [at, is_new] =
        numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size()));
    if (is_new && fixed_) {
      numbers_.erase(at);
      throw BadLine{
          fmt::format("label '{}' is none of the {} classes of --classes-of", name, names_.size())};
    }
    return at->second;
  }

  // The names, and the number of each that of() has given.
  std::vector<std::string> finish(std::vector<std::int32_t>& final_numbers) {
    if (!fixed_ && named_.value_or(false)) {
      for (const auto& [name, number] : numbers_)
        names_.push_back(name);  // a map is sorted
    }
    for (std::int32_t i = 0; !fixed_ && !named_.value_or(false) && i <= largest_; ++i)
      names_.push_back(std::to_string(i));
    final_numbers.resize(std::max(names_.size(), static_cast<std::size_t>(largest_ + 1)));
    for (std::size_t i = 0; i < final_numbers.size(); ++i)
      final_numbers[i] = static_cast<std::int32_t>(i);
    if (!fixed_ && named_.value_or(false)) {
      for (std::size_t i = 0; i < names_.size(); ++i)
        final_numbers[static_cast<std::size_t>(numbers_[names_[i]])] = static_cast<std::int32_t>(i);
    }
    return names_;
  }

 private:
  std::int32_t number(std::int32_t label) {
    if (fixed_ && label >= static_cast<std::int32_t>(names_.size()))
      throw BadLine{
          fmt::format("label {} is none of the {} classes of --classes-of", label, names_.size())};
    largest_ = std::max(largest_, label);
    return label;
  }

  std::vector<std::string> names_;
  bool fixed_ = false;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
  std::optional<bool> named_;
  std::int32_t largest_ = -1;
};

struct Text {
  std::uint64_t end = 0;             // of its tokens, in all
  std::vector<std::int32_t> target;  // numbers of classes, or bits of f32
};

class Reader {
 public:
  explicit Reader(const PackTextOptions& options)
      : options_(options), classes_(known_classes(options)) {
    if (!options.tokenizer.empty()) {
      tokenizer_.emplace(options.tokenizer);
      encoder_.emplace(*tokenizer_);
      frame_ = tokenizer_->frame();
    }
    if (!options.begin_token.empty()) frame_.prefix = {token(options.begin_token)};
    if (!options.end_token.empty()) frame_.suffix = {token(options.end_token)};
    if (frame_.prefix.size() + frame_.suffix.size() >= options.longest)
      fail(ExitCode::config, "--longest: {} has no room for the {} tokens around a text",
           options.longest, frame_.prefix.size() + frame_.suffix.size());
  }

  void take(const TextBatch& batch) {
    std::string_view rest = batch.text;
    for (std::uint64_t number = batch.first_line; !rest.empty(); ++number) {
      const std::size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::size_t before = ids_.size();
      try {
        add(line);
      } catch (const BadLine& bad) {
        ids_.resize(before);
        const std::string message =
            fmt::format("{}: line {}: {}", *batch.lines_of, number, bad.problem);
        if (!options_.skip_bad)
          fail(ExitCode::data, "{}; correct it, or leave such lines out by --skip-bad", message);
        bad_lines_.push_back(message);
      }
    }
  }

  // Targets get their final numbers.
  void finish() {
    if (texts_.empty())
      fail(ExitCode::data, "{}: no texts with targets found", fmt::join(options_.inputs, ", "));
    std::vector<std::int32_t> numbers;
    if (options_.targets != TextTargets::values) names_ = classes_.finish(numbers);
    for (Text& text : texts_) {
      if (options_.targets == TextTargets::values) break;
      for (std::int32_t& target : text.target)
        if (target != masked_target) target = numbers[static_cast<std::size_t>(target)];
      if (options_.targets == TextTargets::labels) text.target = multi_hot(text.target);
    }
  }

  [[nodiscard]] const std::vector<Text>& texts() const { return texts_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ids() const { return ids_; }
  [[nodiscard]] std::uint64_t cut() const { return cut_; }
  [[nodiscard]] std::vector<std::string>& bad_lines() { return bad_lines_; }

  [[nodiscard]] ShardHeader header() const {
    ShardHeader header{.tokenizer = tokenizer_ ? tokenizer_->name() : "bytes",
                       .vocabulary = tokenizer_ ? tokenizer_->vocabulary() : 256,
                       .targets = options_.targets,
                       .target_width = 1,
                       .longest = options_.longest,
                       .classes = names_};
    header.dtype = token_dtype(header.vocabulary, options_.dtype);
    if (header.has_float_targets()) header.target_width = texts_.front().target.size();
    return header;
  }

 private:
  static std::vector<std::string> known_classes(const PackTextOptions& options) {
    if (options.classes_of.empty()) return {};
    return id_names_below(options.classes_of).front().classes;
  }
  [[nodiscard]] std::uint32_t token(const std::string& name) const {
    const auto id = tokenizer_->id_of(name);
    if (!id) fail(ExitCode::config, "token '{}' is not in {}", name, options_.tokenizer);
    return *id;
  }

  void encode(std::string_view text) {
    if (encoder_) return encoder_->encode(text, ids_);
    for (const char byte : text)
      ids_.push_back(static_cast<unsigned char>(byte));
  }

  void add(std::string_view line) {
    const Json object = json_or_discarded(line);
    if (!object.is_object()) throw BadLine{"not a JSON object"};
    if (object.contains("text_pair"))
      throw BadLine{"\"text_pair\": texts of two segments are not supported"};
    const bool words = options_.targets == TextTargets::token_classes;
    const std::string& given = options_.json_field;
    const std::string field = !given.empty() ? given : words ? "tokens" : "text";
    const auto text = object.find(field), label = object.find("label");
    if (text == object.end() || label == object.end())
      throw BadLine{fmt::format("has no field \"{}\"", text == object.end() ? field : "label")};
    ids_.insert(ids_.end(), frame_.prefix.begin(), frame_.prefix.end());
    const std::size_t first = ids_.size();
    Text added;
    if (words) {
      added.target = word_classes(*text, *label, first);
    } else {
      if (!text->is_string()) throw BadLine{fmt::format("\"{}\" is not text", field)};
      encode(text->get<std::string>());
      added.target = targets_of(*label);
    }
    const std::size_t most = options_.longest - frame_.prefix.size() - frame_.suffix.size();
    const bool cuts = ids_.size() - first > most;
    if (cuts) ids_.resize(first + most);
    ids_.insert(ids_.end(), frame_.suffix.begin(), frame_.suffix.end());
    const std::size_t tokens = ids_.size() - first + frame_.prefix.size();
    if (tokens == 0) throw BadLine{"has no tokens"};
    added.end = ids_.size();
    if (words) {
      added.target.resize(tokens - frame_.suffix.size(), masked_target);
      added.target.resize(tokens, masked_target);
    }
    cut_ += cuts ? 1 : 0;
    texts_.push_back(std::move(added));
  }

  // Words but the first follow a space.
  std::vector<std::int32_t> word_classes(const Json& words, const Json& labels, std::size_t first) {
    if (!words.is_array() || !labels.is_array() || words.size() != labels.size())
      throw BadLine{"words and labels are not two lists of one length"};
    std::vector<std::int32_t> targets(frame_.prefix.size(), masked_target);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].is_string()) throw BadLine{fmt::format("word {} is not text", i)};
      const std::size_t before = ids_.size();
      encode((i > 0 ? " " : "") + words[i].get<std::string>());
      targets.resize(frame_.prefix.size() + ids_.size() - first, masked_target);
      constexpr int ignored = -100;
      if (labels[i] != ignored && ids_.size() > before)
        targets[frame_.prefix.size() + before - first] = classes_.of(labels[i]);
    }
    return targets;
  }

  std::vector<std::int32_t> targets_of(const Json& label) {
    if (options_.targets == TextTargets::label) return {classes_.of(label)};
    const std::vector<Json> all =
        label.is_array() ? label.get<std::vector<Json>>() : std::vector<Json>{label};
    std::vector<std::int32_t> targets;
    for (const Json& each : all)
      targets.push_back(options_.targets == TextTargets::labels ? classes_.of(each) : bits(each));
    if (options_.targets == TextTargets::labels) return targets;
    const std::size_t wanted = texts_.empty() ? targets.size() : texts_.front().target.size();
    if (targets.empty() || targets.size() != wanted)
      throw BadLine{
          fmt::format("{} numbers, and the texts before have {}", targets.size(), wanted)};
    return targets;
  }

  static std::int32_t bits(const Json& value) {
    if (!value.is_number() && !value.is_null())
      throw BadLine{fmt::format("label {} is not a number", value.dump())};
    if (value.is_null())
      return std::bit_cast<std::int32_t>(std::numeric_limits<float>::quiet_NaN());
    const auto number = value.get<float>();
    if (!std::isfinite(number)) throw BadLine{fmt::format("label {} is too large", value.dump())};
    return std::bit_cast<std::int32_t>(number);
  }

  [[nodiscard]] std::vector<std::int32_t> multi_hot(const std::vector<std::int32_t>& held) const {
    std::vector<std::int32_t> all(names_.size(), std::bit_cast<std::int32_t>(0.0F));
    for (const std::int32_t label : held)
      all[static_cast<std::size_t>(label)] = std::bit_cast<std::int32_t>(1.0F);
    return all;
  }

  const PackTextOptions& options_;
  ClassNumbers classes_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<TextEncoder> encoder_;
  TextFrame frame_;
  std::vector<std::string> names_;
  std::vector<Text> texts_;
  std::vector<std::uint32_t> ids_;
  std::vector<std::string> bad_lines_;
  std::uint64_t cut_ = 0;
};

// Texts [first, end) as shards of about `shard_tokens` tokens; a text is in one shard.
class SplitWriter {
 public:
  SplitWriter(const Reader& reader, std::uint64_t shard_tokens)
      : reader_(reader), shard_tokens_(shard_tokens) {}

  PackedSplit write(const std::string& directory, std::size_t first, std::size_t end) const {
    std::vector<std::size_t> borders{first};
    for (std::size_t i = first; i < end; ++i)
      if (i > borders.back() && begin_of(i + 1) - begin_of(borders.back()) > shard_tokens_)
        borders.push_back(i);
    borders.push_back(end);
    for (std::size_t i = 0; i + 1 < borders.size(); ++i)
      write_shard(directory, {i, borders.size() - 1}, borders[i], borders[i + 1]);
    return {directory, begin_of(end) - begin_of(first), end - first, borders.size() - 1, {}};
  }

 private:
  [[nodiscard]] std::uint64_t begin_of(std::size_t text) const {
    return text == 0 ? 0 : reader_.texts()[text - 1].end;
  }

  void write_shard(const std::string& directory, std::pair<std::uint64_t, std::uint64_t> place,
                   std::size_t first, std::size_t end) const {
    ShardHeader header = reader_.header();
    header.shard_index = place.first;
    header.shard_count = place.second;
    header.count = begin_of(end) - begin_of(first);
    const auto ids = std::span(reader_.ids()).subspan(begin_of(first), header.count);
    std::vector<std::uint64_t> offsets;
    std::vector<std::int32_t> targets;
    for (std::size_t i = first; i < end; ++i) {
      offsets.push_back(begin_of(i) - begin_of(first));
      const auto& of_text = reader_.texts()[i].target;
      targets.insert(targets.end(), of_text.begin(), of_text.end());
    }
    offsets.push_back(header.count);
    ShardWriter writer(directory + "/" + shard_file_name(place.first), header);
    if (header.dtype == DType::u16) {
      const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
      writer.write(narrow.data(), narrow.size());
    } else {
      writer.write(ids.data(), ids.size());
    }
    writer.finish(offsets, std::as_bytes(std::span(targets)));
  }

  const Reader& reader_;
  std::uint64_t shard_tokens_;
};

}  // namespace

PackedText pack_labelled_text(const std::vector<TextPart>& parts, const PackTextOptions& options,
                              const std::string& target, StagedDirectory& stage) {
  Reader reader(options);
  std::uint64_t total = 0;
  for (const TextPart& part : parts)
    total += part.bytes;
  Progress progress("tokenizing", total, "bytes", options.progress);
  LineCutter cutter([&](std::unique_ptr<TextBatch> batch) { reader.take(*batch); });
  for (const TextPart& part : parts) {
    cutter.begin_file(&part.name);
    read_text_part(
        part, [&](std::uint64_t bytes) { progress.add(bytes); },
        [&](std::span<const std::byte> bytes) { cutter.add(bytes); });
    cutter.end_file();
  }
  reader.finish();
  PackedText packed{.cut = reader.cut(), .skipped = std::move(reader.bad_lines())};
  const SplitWriter writer(reader, options.shard_tokens);
  std::size_t first = 0;
  for (const auto& [name, count] :
       split_sizes(reader.texts().size(), options.validation, "texts")) {
    packed.splits.push_back(
        writer.write(name.empty() ? stage.path() : stage.add(name), first, first + count));
    packed.splits.back().path = name.empty() ? target : target + "/" + name;
    first += count;
  }
  return packed;
}

}  // namespace trireme
