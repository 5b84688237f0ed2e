// SPDX-License-Identifier: Apache-2.0
// What cannot be honoured: by this build, by this version, or by the chosen model and optimizer.
#include <array>

#include "runtime/config/fields.h"
#include "runtime/config/rules.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

struct Unsupported {
  std::string_view key;
  std::string_view use;  // the value to use instead, as YAML
  std::string_view reason;
};

constexpr std::string_view data_parallel_only = "this version trains data-parallel only";
constexpr std::string_view not_yet = "not supported by this version";

constexpr std::array unsupported_in_training{
    Unsupported{"parallel.tensor", "1", data_parallel_only},
    Unsupported{"parallel.pipeline", "1", data_parallel_only},
    Unsupported{"parallel.context", "1", data_parallel_only},
    Unsupported{"parallel.expert", "1", data_parallel_only},
    Unsupported{"parallel.zero", "0", "this version keeps the whole optimizer state on every rank"},
    Unsupported{"parallel.chunks", "1", not_yet},
    Unsupported{"parallel.virtual_tensor", "1", not_yet},
    Unsupported{"parallel.sequence", "false", not_yet},
    Unsupported{"parallel.search", "false", not_yet},
    Unsupported{"train.recompute", "none", not_yet},
    Unsupported{"run.deadline_minutes", "0", not_yet},
    Unsupported{"checkpoint.every_steps", "0", not_yet},
    Unsupported{"checkpoint.every_minutes", "0", not_yet},
    Unsupported{"telemetry.trace", "\"\"", not_yet},
    Unsupported{"telemetry.tensorboard", "false", not_yet},
    Unsupported{"telemetry.prometheus", "false", not_yet},
};

constexpr std::array unsupported_anywhere{
    Unsupported{"device.graphs", "off", not_yet},
    Unsupported{"device.share", "false", not_yet},
};

std::string value_of(const Subject& subject, std::string_view key) {
  const Field* const field = find_field(key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", key);
  return format_value(*field, subject.config);
}

void check_all(const Subject& subject, std::span<const Unsupported> list) {
  for (const Unsupported& item : list) {
    const std::string value = value_of(subject, item.key);
    if (value != item.use)
      refuse(subject, item.key, "{} cannot be honoured: {}; use {}", value, item.reason, item.use);
  }
}

}  // namespace

void check_support(const Subject& subject) {
  check_all(subject, unsupported_in_training);
}

void check_device(const Subject& subject) {
  const Config& config = subject.config;
  if (config.device.type == "cuda" && !subject.environment.cuda_in_build) {
    refuse(subject, "device.type",
           "cuda is part of the cuda backend, which this build lacks; use cpu or auto");
  }
  const std::string& precision = config.precision;
  if (config.device.type == "cpu" && precision != "fp32" && precision != "bf16") {
    refuse(subject, "precision", "{} needs a GPU; on the CPU use fp32, bf16 or auto", precision);
  }
  if (config.reproducibility == "layout") {
    refuse(subject, "reproducibility", "layout cannot be honoured: {}; use run or fast", not_yet);
  }
  check_all(subject, unsupported_anywhere);
}

void check_applicable(const Subject& subject) {
  const Config defaults;
  for (const Field& field : all_fields()) {
    const Condition& condition = field.only_with;
    if (condition.key.empty()) continue;
    const std::string actual = value_of(subject, condition.key);
    const std::string value = format_value(field, subject.config);
    const std::string unset = format_value(field, defaults);
    if (actual != condition.value && value != unset) {
      refuse(subject, field.key, "{} has no effect with {}: {}, only with {}; remove it or use {}",
             value, condition.key, actual, condition.value, unset);
    }
  }
}

}  // namespace trireme::config
