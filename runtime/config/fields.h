// SPDX-License-Identifier: Apache-2.0
// The table of config keys. Parsing, overrides, limits, printing and documentation all read it, so
// a key is declared in one row and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::config {

// A member with an enum of choices.h, accessed by its names.
class ChoiceSlot {
 public:
  template <Choice E>
  ChoiceSlot(E* member)  // NOLINT(google-explicit-constructor): a Slot is made of any member
      : member_(member),
        get_([](const void* from) { return name_of(*static_cast<const E*>(from)); }),
        set_([](void* to, std::string_view name) {
          if (const auto value = value_named<E>(name)) *static_cast<E*>(to) = *value;
        }) {}

  [[nodiscard]] std::string_view operator*() const { return get_(member_); }
  // `name` is one of the table.
  void set(std::string_view name) const { set_(member_, name); }
  [[nodiscard]] const void* member() const { return member_; }

 private:
  void* member_;
  std::string_view (*get_)(const void*);
  void (*set_)(void*, std::string_view);
};

// The member of a Config behind a key.
using Slot =
    std::variant<bool*, std::int64_t*, std::uint64_t*, Seed*, double*, std::string*,
                 std::vector<std::int64_t>*, std::vector<double>*, std::array<double, 2>*,
                 std::vector<std::string>*, std::vector<NamedSource>*, StopTarget*, ChoiceSlot>;

// Lengths allowed for a list; ignored for a single value.
struct Items {
  std::size_t min = 0;
  std::size_t max = 0;
};

struct Free {};  // booleans, seeds, targets: whatever the type can hold
struct Text {
  bool may_be_empty = true;
  Items items{};       // a list of one may be written without brackets
  bool plain = false;  // and is printed without; "" is the empty list
};
// For a choice, or a boolean written as one of two words.
struct Choices {
  std::vector<std::string_view> words;
};
template <Choice E>
[[nodiscard]] Choices one_of() {
  Choices choices;
  for (const Named<E>& named : names_of(E{}))
    choices.words.push_back(named.name);
  return choices;
}
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  Items items{};
  std::string_view zero_word{};   // written instead of 0 ("auto")
  std::string_view below_word{};  // of -1; needs a zero_word
};
struct NumberRange {
  double low = 0;
  double high = 0;
  bool low_is_open = false;   // low itself is refused
  bool high_is_open = false;  // high itself is refused
  Items items{};
  std::string_view zero_word{};  // written instead of 0 ("auto")
};
struct DataSets {
  Items items{};
};
using Limits = std::variant<Free, Text, Choices, IntegerRange, NumberRange, DataSets>;

// A key that only means something while another key has one of these values ("model.layers" with
// "model.family: gpt2"). Setting it otherwise is refused instead of ignored.
struct Condition {
  std::string_view key{};
  std::vector<std::string_view> values{};

  [[nodiscard]] bool allows(std::string_view value) const;
  [[nodiscard]] std::string any() const;  // "gpt2 or llama"
};

// The input of a model; fields: images or volumes of float32, from HDF5 files alone.
enum class Input : std::uint8_t { tokens, images, fields };
// Rows of this module that only some model families give a meaning: those of images; of fields; of
// images or fields; and of these, with HDF5 files (data.files), images (data.images) or either of
// them read in place.
enum class Needs : std::uint8_t {
  any_model,
  tensor_split,
  images,
  fields,
  channels,
  hdf5_files,
  image_files,
  in_place
};

// What another value of a key changes, most first: before `rounding` results change. Resume,
// replay, ablations and imports read it.
enum class Effect : std::uint8_t {
  samples,   // which samples a step has, in which order: another run
  state,     // random numbers, or the meaning of the optimizer's state: another run
  function,  // the function that given weights compute
  history,   // results, through more than one step
  step,      // results of each step by itself
  rounding,  // the order of additions, and so the last bits
  layout,    // the same, except with reproducibility: layout
  extent,    // where a run starts or ends
  place,     // where and how the same results are computed
  report     // what is measured and written beside them
};

struct Field {
  std::string key;  // "train.steps"
  Slot (*slot)(Config&);
  Limits limits;
  std::string_view description;
  Condition only_with{};
  Needs needs = Needs::any_model;
  // Other model families with the same key, each with its own member, limits and text.
  struct Shared {
    std::string_view family;
    Slot (*slot)(Config&);
    Limits limits;
    std::string_view description;
  };
  std::vector<Shared> shared{};
  std::string_view formerly{};         // its whole name in earlier versions, which is still read
  std::optional<Effect> own_effect{};  // where it is not that of the section

  [[nodiscard]] std::string_view section() const;  // "train"; "" for a top-level key
  [[nodiscard]] std::string_view name() const;     // "steps"
  // The member for the model of `config`.
  [[nodiscard]] Slot member(Config& config) const;
  [[nodiscard]] const Limits& limits_for(std::string_view family) const;
  [[nodiscard]] Effect effect() const;

  // The row with another effect than its section's.
  [[nodiscard]] Field changing(Effect effect) && {
    own_effect = effect;
    return std::move(*this);
  }
  // The row under its name of today; `old` is still read, with a notice.
  [[nodiscard]] Field formerly_named(std::string_view old) && {
    formerly = old;
    return std::move(*this);
  }
};

// The rows of this module.
[[nodiscard]] std::vector<Field> common_fields();
// The rows of DataSource, which each of data.sources may also set.
[[nodiscard]] const std::vector<Field>& source_fields();

// A row of a model family: the key is spelled by the member of its options, so the two cannot
// differ.
#define TRIREME_MODEL_FIELD(Options, name, ...)                    \
  ::trireme::config::Field {                                       \
    "model." #name,                                                \
        [](::trireme::Config& config) -> ::trireme::config::Slot { \
          return &config.model.as<Options>().name;                 \
        },                                                         \
        __VA_ARGS__                                                \
  }

// Calls `visitor` with the value of `field` in `config`: a const reference to the member, or the
// name of a choice.
template <typename Visitor>
decltype(auto) visit_value(const Field& field, const Config& config, Visitor&& visitor) {
  // The slot is only read here; the table needs one accessor per row instead of two.
  return std::visit(
      [&](const auto& slot) -> decltype(auto) {
        const auto& value = *slot;
        return visitor(value);
      },
      field.member(const_cast<Config&>(config)));
}

}  // namespace trireme::config
