// SPDX-License-Identifier: Apache-2.0
// The table of config keys. Parsing, overrides, limits, printing and documentation all read it, so
// a key is declared in one row and nowhere else.
#pragma once

#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::config {

// The member of a Config that a key stands for.
using Slot = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*,
                          std::vector<std::int64_t>*, std::vector<double>*, std::array<double, 2>*>;

// Lengths allowed for a list; ignored for a single value.
struct Items {
  std::size_t least = 0;
  std::size_t most = 0;
};

struct Free {};  // booleans, seeds: whatever the type can hold
struct Text {
  bool may_be_empty = true;
};
struct Choices {
  std::vector<std::string_view> words;
};
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  Items items{};
  std::string_view zero_word{};  // written instead of 0 ("auto")
};
struct NumberRange {
  double low = 0;
  double high = 0;
  bool low_is_open = false;   // low itself is refused
  bool high_is_open = false;  // high itself is refused
  Items items{};
};
using Limits = std::variant<Free, Text, Choices, IntegerRange, NumberRange>;

// A key that only means something while another key has one value ("model.layers" with
// "model.family: gpt2"). Setting it otherwise is refused instead of ignored.
struct Condition {
  std::string_view key{};
  std::string_view value{};
};

// A key whose machinery is not built yet: any value but `only` is refused. Delete it from the row
// when it is built.
struct Unbuilt {
  std::string_view only{};  // as YAML; empty = built
  std::string_view reason = "not supported by this version";
  bool always = false;  // refused for every purpose, not only for training
};

struct Field {
  std::string_view key;  // "train.steps"
  Slot (*slot)(Config&);
  Limits limits;
  std::string_view description;
  Condition only_with{};
  Unbuilt unbuilt{};

  [[nodiscard]] std::string_view section() const;  // "train"; "" for a top-level key
  [[nodiscard]] std::string_view name() const;     // "steps"
};

// All rows, in the order of the structs; the rows of a section are adjacent.
[[nodiscard]] std::span<const Field> all_fields();
// The row of `key`, or null.
[[nodiscard]] const Field* find_field(std::string_view key);
[[nodiscard]] bool is_section(std::string_view name);
// Names that may stand inside `section` ("" = top level, which includes the sections).
[[nodiscard]] std::vector<std::string_view> names_in(std::string_view section);

// Calls `visitor` with the value of `field` in `config`, as a const reference to the member.
template <typename Visitor>
decltype(auto) visit_value(const Field& field, const Config& config, Visitor&& visitor) {
  // The slot is only read here; the table needs one accessor per row instead of two.
  return std::visit([&](const auto* value) -> decltype(auto) { return visitor(*value); },
                    field.slot(const_cast<Config&>(config)));
}

}  // namespace trireme::config
