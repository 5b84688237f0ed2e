// SPDX-License-Identifier: Apache-2.0
// What a model predicts, for families that can end in several heads: the key model.head.
#pragma once

#include "models/fields/value_loss.h"
#include "runtime/config/choices.h"
#include "runtime/config/key_table.h"
#include "runtime/config/rules/rules.h"
#include "runtime/config/target_spec.h"

namespace trireme {

enum class HeadKind : std::uint8_t { automatic, language, classes, values, labels, token_classes };
[[nodiscard]] constexpr auto names_of(HeadKind /*key*/) {
  return std::to_array<Named<HeadKind>>({{HeadKind::automatic, "auto"},
                                         {HeadKind::language, "language"},
                                         {HeadKind::classes, "classes"},
                                         {HeadKind::values, "values"},
                                         {HeadKind::labels, "labels"},
                                         {HeadKind::token_classes, "token_classes"}});
}

// Of options with the keys head, classes and targets. Families of texts have a context.
template <typename Options>
[[nodiscard]] HeadKind head_kind(const Options& options) {
  if (options.head != HeadKind::automatic) return options.head;
  return requires {
    options.context;
  }
  ? HeadKind::language : HeadKind::classes;
}

struct HeadChoice {
  HeadKind kind = HeadKind::language;
  std::int64_t outputs = 0;  // classes, labels or values; 0 of a language head
  ValueLossChoice loss{};    // of values

  [[nodiscard]] bool is_language() const { return kind == HeadKind::language; }
  // One prediction a token; else one a sample.
  [[nodiscard]] bool of_tokens() const { return kind == HeadKind::token_classes; }
  // Predictions are numbers (a logit for each label) with f32 targets.
  [[nodiscard]] bool has_values() const {
    return kind == HeadKind::values || kind == HeadKind::labels;
  }
};

// Of options without these keys: a language head.
template <typename Options>
[[nodiscard]] HeadChoice head_choice(const Options& options) {
  if constexpr (requires { options.head; }) {
    const HeadKind kind = head_kind(options);
    if (kind != HeadKind::language)
      return {kind, kind == HeadKind::values ? options.targets : options.classes, {}};
  }
  return {};
}
// The same with the loss of a resolved config.
template <typename Options>
[[nodiscard]] HeadChoice head_choice(const Options& options, const TrainConfig& train) {
  HeadChoice choice = head_choice(options);
  choice.loss = value_loss_choice(train, OutputTransform::none, 1);
  return choice;
}

inline constexpr config::IntegerRange classes_range{2, 10'000'000};
inline constexpr std::string_view classes_text = "classes, or labels";
inline constexpr config::IntegerRange targets_range{1, 65536};
inline constexpr std::string_view targets_text = "values to predict for each sample";

// A family's keys, and after them those of its heads.
template <typename Options>
[[nodiscard]] std::vector<config::Field> head_fields(std::vector<config::Field> rows) {
  rows.push_back(TRIREME_MODEL_FIELD(
      Options, head, config::one_of<HeadKind>(),
      "what is predicted: text, a class, values or several labels of a sample, or classes of "
      "tokens; auto = language, of images classes"));
  rows.push_back(TRIREME_MODEL_FIELD(Options, classes, classes_range, classes_text));
  rows.push_back(TRIREME_MODEL_FIELD(Options, targets, targets_range, targets_text));
  if constexpr (requires(Options o) { o.pad_token; })
    rows.push_back(TRIREME_MODEL_FIELD(Options, pad_token, (config::IntegerRange{0, 2147483646}),
                                       "id that fills a labelled text up to model.context"));
  return rows;
}

// ModelFamily::targets. `positions`: tokens of a sample.
[[nodiscard]] TargetSpec head_targets(const HeadChoice& head, std::int64_t positions = 0);

// Raises ExitCode::config for a head that models of texts or of images do not have, and for other
// keys that it cannot honour.
void check_head(const config::Subject& subject, const HeadChoice& head, bool of_texts);

}  // namespace trireme
