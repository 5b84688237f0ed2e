// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/overridden.h"

#include "runtime/base/error.h"
#include "runtime/config/fields.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

// Whether the file sets `key`, and the command line only `cause`.
bool met_by(const Provenance& where, std::string_view cause, std::string_view key) {
  return where.overridden.contains(cause) && where.places.contains(key) &&
         !where.overridden.contains(key);
}

const Field& field_of(std::string_view key) {
  const Field* const field = find_field(key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", key);
  return *field;
}

// Copies one member.
void set_from(const Config& source, const Field& field, Config& config) {
  std::visit(
      [&]<typename T>(T* value) {
        visit_value(field, source, [&](const auto& from) {
          if constexpr (std::is_same_v<std::decay_t<decltype(from)>, T>) *value = from;
        });
      },
      field.slot(config));
}

void ignore(const Field& field, std::string_view cause, Config& config, Provenance& where) {
  where.notices.push_back(fmt::format("{}: {} has no effect with {} and is ignored",
                                      where.describe(field.key), format_value(field, config),
                                      where.describe(cause)));
  set_from(Config{}, field, config);
  where.places.erase(where.places.find(field.key));
}

// Rows of the table that mean something with one value of another key only.
void ignore_conditional(Config& config, Provenance& where) {
  const Config defaults;
  for (const Field& field : all_fields()) {
    const Condition& condition = field.only_with;
    if (condition.key.empty() || !met_by(where, condition.key, field.key)) continue;
    const std::string actual = format_value(field_of(condition.key), config);
    const bool open = condition.key == "device.type" && actual == "auto";  // decided on the host
    if (open || actual == condition.value ||
        format_value(field, config) == format_value(field, defaults))
      continue;
    ignore(field, condition.key, config, where);
  }
}

}  // namespace

void settle_overridden(Config& config, Provenance& where) {
  ignore_conditional(config, where);
  if (config.data.validation_path.empty() && config.train.eval_every > 0 &&
      met_by(where, "data.validation_path", "train.eval_every"))
    ignore(field_of("train.eval_every"), "data.validation_path", config, where);
  if (config.optimizer.momentum == 0 && config.optimizer.nesterov &&
      met_by(where, "optimizer.momentum", "optimizer.nesterov"))
    ignore(field_of("optimizer.nesterov"), "optimizer.momentum", config, where);
  std::int64_t& warmup = config.lr_schedule.warmup_steps;
  if (warmup <= config.train.steps || !met_by(where, "train.steps", "lr_schedule.warmup_steps"))
    return;
  where.notices.push_back(fmt::format("{}: {} is more than {} and is shortened to {}",
                                      where.describe("lr_schedule.warmup_steps"), warmup,
                                      where.describe("train.steps"), config.train.steps));
  warmup = config.train.steps;
}

}  // namespace trireme::config
