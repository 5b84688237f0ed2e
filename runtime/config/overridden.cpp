// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"
#include "runtime/config/key_table.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

// Whether `cause` was set later (command line, or a file over its base) than `key`.
bool met_by(const Provenance& where, std::string_view cause, std::string_view key) {
  const auto later = where.hands.find(cause), earlier = where.hands.find(key);
  return later != where.hands.end() && earlier != where.hands.end() &&
         earlier->second < later->second;
}

const Field& field_of(const KeyTable& keys, std::string_view key) {
  const Field* const field = keys.find(key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", key);
  return *field;
}

// Copies one member.
void set_from(const Config& source, const Field& field, Config& config) {
  std::visit(
      [&]<typename Member>(Member to) {
        visit_value(field, source, [&]<typename T>(const T& from) {
          if constexpr (std::is_same_v<Member, T*>) {
            *to = from;
          } else if constexpr (std::is_same_v<Member, ChoiceSlot> &&
                               std::is_same_v<T, std::string_view>) {
            to.set(from);
          }
        });
      },
      field.member(config));
}

// "--set train.steps=5" or "a.yaml:3: train.steps: 5".
std::string with_value(const KeyTable& keys, std::string_view key, const Config& config,
                       const Provenance& where) {
  const std::string place = where.describe(key);
  if (where.overridden.contains(key)) return place;
  return fmt::format("{}: {}", place, format_value(field_of(keys, key), config));
}

void ignore(const KeyTable& keys, const Field& field, std::string_view cause, Config& config,
            Provenance& where) {
  where.notices.push_back(fmt::format("{}: {} has no effect with {} and is ignored",
                                      where.describe(field.key), format_value(field, config),
                                      with_value(keys, cause, config, where)));
  set_from(keys.defaults(), field, config);
  where.places.erase(where.places.find(field.key));
  where.hands.erase(where.hands.find(field.key));
}

// Rows of the table that depend on another key's value.
void ignore_conditional(const KeyTable& keys, Config& config, Provenance& where) {
  const Config& defaults = keys.defaults();
  for (const Field& field : keys.fields()) {
    const Condition& condition = field.only_with;
    if (condition.key.empty() || !met_by(where, condition.key, field.key)) continue;
    if (unmet_condition(keys, field, config).empty() || same_value(field, config, defaults))
      continue;
    ignore(keys, field, condition.key, config, where);
  }
}

}  // namespace

void settle_overridden(const KeyTable& keys, Config& config, Provenance& where) {
  ignore_conditional(keys, config, where);
  const TrainConfig& train = config.train;
  // The later of two keys for one setting counts.
  const std::tuple<std::string_view, std::string_view, bool> alternatives[] = {
      {"train.epochs", "train.steps", train.epochs > 0},
      {"train.steps", "train.epochs", train.epochs > 0},
      {"lr_schedule.warmup_fraction", "lr_schedule.warmup_steps",
       config.lr_schedule.warmup_fraction > 0 && config.lr_schedule.warmup_steps > 0},
      {"lr_schedule.warmup_steps", "lr_schedule.warmup_fraction",
       config.lr_schedule.warmup_fraction > 0}};
  for (const auto& [later, earlier, both] : alternatives)
    if (both && met_by(where, later, earlier))
      ignore(keys, field_of(keys, earlier), later, config, where);
  const std::pair<std::string_view, bool> measured[] = {
      {"train.eval_every", train.eval_every > 0},
      {"train.eval_every_samples", train.eval_every_samples > 0},
      {"train.stop_at", train.stop_at.given()},
      {"train.patience", train.patience > 0},
      {"checkpoint.keep_best", !config.checkpoint.keep_best.empty()}};
  for (const auto& [key, given] : measured)
    if (given && !config.data.has_validation() && met_by(where, "data.validation_path", key))
      ignore(keys, field_of(keys, key), "data.validation_path", config, where);
  if (config.optimizer.momentum == 0 && config.optimizer.nesterov &&
      met_by(where, "optimizer.momentum", "optimizer.nesterov"))
    ignore(keys, field_of(keys, "optimizer.nesterov"), "optimizer.momentum", config, where);
  std::int64_t& warmup = config.lr_schedule.warmup_steps;
  if (warmup <= config.train.steps || !met_by(where, "train.steps", "lr_schedule.warmup_steps"))
    return;
  where.notices.push_back(fmt::format(
      "{}: {} is more than {} and is shortened to {}", where.describe("lr_schedule.warmup_steps"),
      warmup, with_value(keys, "train.steps", config, where), config.train.steps));
  warmup = config.train.steps;
}

}  // namespace trireme::config
