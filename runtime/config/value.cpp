// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/config/suggest.h"
#include "runtime/config/yaml/scalar.h"
#include "runtime/config/yaml/text_check.h"

namespace trireme::config {
namespace {

std::string text_of(const Limits& limits);

std::string any_unsigned() {
  return "0 to 2^64 - 1";
}

constexpr double any_target = 1e30;

// Context of read_value.
struct Reader {
  const Limits& limits;
  const std::string& place;

  [[noreturn]] void wrong_type(const Node& node, std::string_view expected,
                               std::string_view hint = "") const {
    fail(ExitCode::config, "{}: expected {}, found {}{}", place, expected, describe(node), hint);
  }
  [[noreturn]] void out_of_range(const Node& node, const std::string& allowed) const {
    fail(ExitCode::config, "{}: {} is out of range; allowed: {}", place, printable(node.text),
         allowed);
  }
  void expect_scalar(const Node& node, std::string_view expected) const {
    if (node.kind != Node::Kind::scalar) wrong_type(node, expected);
    if (node.quoted) wrong_type(node, expected, "; remove the quotes");
  }

  void read(const Node& node, bool& out) const {
    if (const auto* choices = std::get_if<Choices>(&limits))
      return read_switch(node, *choices, out);
    expect_scalar(node, "true or false");
    const auto value = parse_boolean(node.text);
    if (!value) wrong_type(node, "true or false");
    out = *value;
  }

  void read(const Node& node, std::int64_t& out) const {
    const auto& range = std::get<IntegerRange>(limits);
    for (const auto& [word, number] : {std::pair(range.zero_word, 0), {range.below_word, -1}}) {
      if (word.empty() || node.kind != Node::Kind::scalar || node.text != word) continue;
      out = number;
      return;
    }
    const std::string expected =
        range.zero_word.empty() ? "an integer"
        : range.below_word.empty()
            ? fmt::format("{} or an integer", range.zero_word)
            : fmt::format("{}, {} or an integer", range.zero_word, range.below_word);
    expect_scalar(node, expected);
    const auto value = parse_integer(node.text);
    if (value.state == Parse::malformed) wrong_type(node, expected, integer_hint(node.text));
    if (value.state == Parse::too_large || value.value < range.low || value.value > range.high)
      out_of_range(node, text_of(limits));
    out = value.value;
  }

  void read(const Node& node, std::uint64_t& out) const {
    expect_scalar(node, "an integer");
    const auto value = parse_unsigned(node.text);
    if (value.state == Parse::malformed) wrong_type(node, "an integer", integer_hint(node.text));
    if (value.state == Parse::too_large) out_of_range(node, any_unsigned());
    out = value.value;
  }

  void read(const Node& node, Seed& out) const {
    out = {.from_clock = node.text == Seed::clock};
    if (!out.from_clock) read(node, out.value);
  }

  void read(const Node& node, double& out) const {
    const auto& range = std::get<NumberRange>(limits);
    if (!range.zero_word.empty() && node.kind == Node::Kind::scalar &&
        node.text == range.zero_word) {
      out = 0;
      return;
    }
    const std::string expected =
        range.zero_word.empty() ? "a number" : fmt::format("{} or a number", range.zero_word);
    expect_scalar(node, expected);
    const auto value = parse_number(node.text);
    if (value.state == Parse::malformed) wrong_type(node, expected, number_hint(node.text));
    const bool below = range.low_is_open ? value.value <= range.low : value.value < range.low;
    const bool above = range.high_is_open ? value.value >= range.high : value.value > range.high;
    if (value.state == Parse::too_large || below || above) out_of_range(node, text_of(limits));
    out = value.value;
  }

  void read(const Node& node, std::string& out) const {
    if (const auto* choices = std::get_if<Choices>(&limits)) {
      out = word_of(node, *choices);
      return;
    }
    if (node.kind == Node::Kind::null) wrong_type(node, "text", "; write \"\" for none");
    if (node.kind != Node::Kind::scalar) wrong_type(node, "text");
    if (!is_printable(node.text)) {
      fail(ExitCode::config, "{}: \"{}\" contains control characters", place, printable(node.text));
    }
    if (node.text.size() > max_text)
      fail(ExitCode::config, "{}: longer than {} bytes", place, max_text);
    if (node.text.empty() && !std::get<Text>(limits).may_be_empty) {
      fail(ExitCode::config, "{}: must not be empty", place);
    }
    out = node.text;
  }

  void read(const Node& node, const ChoiceSlot& out) const {
    out.set(word_of(node, std::get<Choices>(limits)));
  }

  // YAML has several words for true and false; this key uses these two.
  void read_switch(const Node& node, const Choices& choices, bool& out) const {
    const auto boolean = node.quoted ? std::nullopt : parse_boolean(node.text);
    out = boolean ? *boolean : word_of(node, choices) == choices.words[1];
  }

  [[nodiscard]] std::string word_of(const Node& node, const Choices& choices) const {
    const std::string expected = fmt::format("one of {}", fmt::join(choices.words, ", "));
    if (node.kind != Node::Kind::scalar) wrong_type(node, expected);
    if (std::ranges::find(choices.words, node.text) == choices.words.end()) {
      const auto near = closest(node.text, choices.words);
      wrong_type(node, expected, near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
    return node.text;
  }

  template <typename List>
  void expect_list(const Node& node, const Items& items, const List&) const {
    const std::string expected =
        items.min == items.max ? fmt::format("a list of {} values", items.min)
                               : fmt::format("a list of {} to {} values", items.min, items.max);
    if (node.kind != Node::Kind::list) wrong_type(node, expected);
    if (node.items.size() < items.min || node.items.size() > items.max) {
      fail(ExitCode::config, "{}: expected {}, found {} values", place, expected,
           node.items.size());
    }
  }

  void read(const Node& node, std::vector<std::string>& out) const {
    if (node.kind == Node::Kind::scalar) {
      read(node, out.emplace_back());
      out.erase(out.begin(), out.end() - 1);
      if (std::get<Text>(limits).plain && out.front().empty()) out.clear();
      return;
    }
    expect_list(node, std::get<Text>(limits).items, out);
    out.assign(node.items.size(), {});
    for (std::size_t i = 0; i < out.size(); ++i)
      read(node.items[i], out[i]);
  }

  // A path, or keys of the data section in braces.
  void read(const Node& node, std::vector<NamedSource>& out) const {
    if (node.kind == Node::Kind::list) expect_list(node, std::get<DataSets>(limits).items, out);
    const std::span<const Node> given =
        node.kind == Node::Kind::list ? std::span(node.items) : std::span(&node, 1);
    out.assign(given.size(), {});
    for (std::size_t i = 0; i < out.size(); ++i)
      read_source(given[i], out[i], fmt::format("{}[{}]", place, i));
  }

  static void read_source(const Node& node, NamedSource& out, const std::string& place) {
    const Limits name = Text{.may_be_empty = false};
    if (node.kind != Node::Kind::map) {
      Reader{name, place}.read(node, out.path);
      return;
    }
    std::vector<std::string_view> known{"name"};
    for (const Field& row : source_fields())
      known.push_back(row.name());
    Config scratch;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string& key = node.keys[i];
      const std::string here = fmt::format("{}.{}", place, printable(key));
      const auto row = std::ranges::find(source_fields(), key, &Field::name);
      if (key == "name") {
        Reader{name, here}.read(node.items[i], out.name);
      } else if (row != source_fields().end()) {
        static_cast<void>(assign(*row, node.items[i], scratch, here));
      } else {
        const auto near = closest(key, known);
        fail(ExitCode::config, "{}: not a key of a data set; {}", here,
             near.empty() ? fmt::format("known are {}", fmt::join(known, ", "))
                          : fmt::format("did you mean {}?", near));
      }
    }
    static_cast<DataSource&>(out) = scratch.data;
  }

  void read(const Node& node, StopTarget& out) const {
    constexpr std::string_view form = "{metric: NAME, below: X} or {metric: NAME, above: X}";
    if (node.kind != Node::Kind::map) wrong_type(node, form, "; write {} for none");
    out = {};
    const Limits name = Text{.may_be_empty = false};
    const Limits number = NumberRange{.low = -any_target, .high = any_target};
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string& key = node.keys[i];
      const std::string here = fmt::format("{}.{}", place, printable(key));
      const Node& value = node.items[i];
      if (key == "metric") {
        Reader{name, here}.read(value, out.metric);
      } else if (key == "below" || key == "above") {
        Reader{number, here}.read(value, (key == "below" ? out.below : out.above).emplace());
      } else {
        fail(ExitCode::config, "{}: not a key of a target; write {}", here, form);
      }
    }
  }

  template <typename Element>
  void read(const Node& node, std::vector<Element>& out) const {
    using Range = std::conditional_t<std::is_integral_v<Element>, IntegerRange, NumberRange>;
    expect_list(node, std::get<Range>(limits).items, out);
    out.assign(node.items.size(), Element{});
    for (std::size_t i = 0; i < out.size(); ++i)
      read(node.items[i], out[i]);
  }

  void read(const Node& node, std::array<double, 2>& out) const {
    expect_list(node, std::get<NumberRange>(limits).items, out);
    for (std::size_t i = 0; i < out.size(); ++i)
      read(node.items[i], out[i]);
  }

  static constexpr std::size_t max_text = 4096;
};

struct Formatter {
  const Limits& limits;

  std::string operator()(bool value) const {
    if (const auto* choices = std::get_if<Choices>(&limits))
      return std::string(choices->words[value ? 1 : 0]);
    return value ? "true" : "false";
  }
  std::string operator()(std::uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const Seed& seed) const {
    return seed.from_clock ? std::string(Seed::clock) : fmt::format("{}", seed.value);
  }
  std::string operator()(const StopTarget& target) const {
    std::vector<std::string> pairs;
    if (!target.metric.empty()) pairs.push_back("metric: " + quote_if_needed(target.metric));
    if (target.below) pairs.push_back(fmt::format("below: {}", *target.below));
    if (target.above) pairs.push_back(fmt::format("above: {}", *target.above));
    return fmt::format("{{{}}}", fmt::join(pairs, ", "));
  }
  std::string operator()(double value) const {
    const auto* const range = std::get_if<NumberRange>(&limits);
    if (value == 0 && range != nullptr && !range->zero_word.empty())
      return std::string(range->zero_word);
    return fmt::format("{}", value);
  }
  std::string operator()(std::int64_t value) const {
    const auto& range = std::get<IntegerRange>(limits);
    if (value == 0 && !range.zero_word.empty()) return std::string(range.zero_word);
    if (value == -1 && !range.below_word.empty()) return std::string(range.below_word);
    return fmt::format("{}", value);
  }
  std::string operator()(const std::string& value) const { return quote_if_needed(value); }
  std::string operator()(std::string_view name) const { return std::string(name); }
  std::string operator()(const std::vector<std::string>& values) const {
    if (values.size() < 2 && std::get<Text>(limits).plain)
      return quote_if_needed(values.empty() ? "" : values.front());
    std::vector<std::string> written;
    for (const std::string& value : values)
      written.push_back(quote_if_needed(value));
    return fmt::format("[{}]", fmt::join(written, ", "));
  }
  std::string operator()(const std::vector<NamedSource>& sources) const {
    std::vector<std::string> written;
    for (const NamedSource& source : sources)
      written.push_back(written_source(source));
    return fmt::format("[{}]", fmt::join(written, ", "));
  }
  template <typename List>
  std::string operator()(const List& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }

  // The short form: omits defaults.
  static std::string written_source(const NamedSource& source) {
    const Config defaults;
    Config scratch;
    static_cast<DataSource&>(scratch.data) = source;
    std::vector<std::string> pairs;
    if (!source.name.empty()) pairs.push_back("name: " + quote_if_needed(source.name));
    for (const Field& row : source_fields()) {
      if (!same_value(row, scratch, defaults))
        pairs.push_back(fmt::format("{}: {}", row.name(), format_value(row, scratch)));
    }
    const bool path_alone = pairs.size() == 1 && !source.path.empty();
    return path_alone ? quote_if_needed(source.path)
                      : fmt::format("{{{}}}", fmt::join(pairs, ", "));
  }
};

std::string describe_range(const NumberRange& range) {
  if (!range.low_is_open && !range.high_is_open)
    return fmt::format("{} to {}", range.low, range.high);
  return fmt::format("{} {} and {} {}", range.low_is_open ? ">" : ">=", range.low,
                     range.high_is_open ? "<" : "<=", range.high);
}

std::string with_items(const Items& items, const std::string& range) {
  if (items.max == 0) return range;
  if (items.min == items.max) return fmt::format("{} values, each {}", items.min, range);
  if (items.min == 0) return fmt::format("up to {} values, {}", items.max, range);
  return fmt::format("{} to {} values, each {}", items.min, items.max, range);
}

std::string text_of(const Limits& limits) {
  struct Describer {
    std::string operator()(const Free&) const { return ""; }
    std::string operator()(const Text& text) const {
      const std::string_view each = text.may_be_empty ? "" : "not empty";
      if (text.items.max == 0) return std::string(each);
      return fmt::format("{} to {} texts", text.items.min, text.items.max);
    }
    std::string operator()(const DataSets& sets) const {
      return fmt::format("{} to {} data sets", sets.items.min, sets.items.max);
    }
    std::string operator()(const Choices& choices) const {
      return fmt::format("{}", fmt::join(choices.words, " | "));
    }
    std::string operator()(const IntegerRange& range) const {
      constexpr std::int64_t most = 1'000'000'000'000;
      const std::string text = with_items(
          range.items, range.high == most ? fmt::format("{} to 10^12", range.low)
                                          : fmt::format("{} to {}", range.low, range.high));
      if (range.zero_word.empty()) return text;
      return fmt::format("{}{}{} | {}", range.zero_word, range.below_word.empty() ? "" : " | ",
                         range.below_word, text);
    }
    std::string operator()(const NumberRange& range) const {
      const std::string text = with_items(range.items, describe_range(range));
      return range.zero_word.empty() ? text : fmt::format("{} | {}", range.zero_word, text);
    }
  };
  return std::visit(Describer{}, limits);
}

}  // namespace

void read_value(const Node& node, const Slot& slot, const Limits& limits,
                const std::string& place) {
  const Reader reader{limits, place};
  std::visit(
      [&]<typename Member>(const Member& member) {
        if constexpr (std::is_same_v<Member, ChoiceSlot>) {
          reader.read(node, member);
        } else {
          reader.read(node, *member);
        }
      },
      slot);
}

Refusals assign(const Field& field, const Node& node, Config& config, const std::string& place) {
  Refusals refused;
  if (field.shared.empty()) {
    read_value(node, field.slot(config), field.limits, place);
    return refused;
  }
  for (const std::string_view family : field.only_with.values) {
    const auto other = std::ranges::find(field.shared, family, &Field::Shared::family);
    const Slot slot = (other == field.shared.end() ? field.slot : other->slot)(config);
    try {
      read_value(node, slot, field.limits_for(family), place);
    } catch (const Error& error) {
      refused.emplace(family, error);
    }
  }
  return refused;
}

std::string format_value(const Field& field, const Config& config) {
  return visit_value(field, config, Formatter{field.limits_for(config.model.family)});
}

bool same_value(const Field& field, const Config& a, const Config& b) {
  return visit_value(field, a, [&](const auto& ours) {
    return visit_value(field, b, [&](const auto& theirs) {
      if constexpr (std::is_same_v<decltype(ours), decltype(theirs)>) return ours == theirs;
      return false;  // families that share a key may give it other types
    });
  });
}

std::string type_of(const Field& field) {
  struct Namer {
    std::string operator()(bool) const { return "boolean"; }
    std::string operator()(std::int64_t) const { return "integer"; }
    std::string operator()(std::uint64_t) const { return "integer"; }
    std::string operator()(const Seed&) const { return "integer"; }
    std::string operator()(double) const { return "number"; }
    std::string operator()(const std::string&) const { return "text"; }
    std::string operator()(std::string_view) const { return "text"; }
    std::string operator()(const std::vector<std::int64_t>&) const { return "list of integers"; }
    std::string operator()(const std::vector<double>&) const { return "list of numbers"; }
    std::string operator()(const std::array<double, 2>&) const { return "list of numbers"; }
    std::string operator()(const std::vector<std::string>&) const { return "list of texts"; }
    std::string operator()(const std::vector<NamedSource>&) const { return "list of data sets"; }
    std::string operator()(const StopTarget&) const { return "target"; }
  };
  return visit_value(field, Config{}, Namer{});
}

std::string allowed_by(const Field& field, std::string_view family) {
  const bool is_seed = visit_value(field, Config{}, [](const auto& value) {
    return std::is_same_v<std::decay_t<decltype(value)>, Seed>;
  });
  return is_seed ? fmt::format("{} | {}", Seed::clock, any_unsigned())
                 : text_of(field.limits_for(family));
}

}  // namespace trireme::config
