// SPDX-License-Identifier: Apache-2.0
// What cannot be honoured: by this build, by this version, or by the chosen model and optimizer.
#include "runtime/config/fields.h"
#include "runtime/config/rules.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

std::string value_of(const Subject& subject, std::string_view key) {
  const Field* const field = find_field(key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", key);
  return format_value(*field, subject.config);
}

void check_fused_epilogues(const Subject& subject) {
  const Config& config = subject.config;
  if (config.device.fused_epilogues != "on") return;
  constexpr std::string_view key = "device.fused_epilogues";
  if (config.model.family != "gpt2") {
    refuse(subject, key,
           "on is for the linear layers of transformer blocks, and model.family: {} has none; use "
           "off",
           config.model.family);
  }
  if (config.precision == "fp8")
    refuse(subject, key, "on has no 8-bit products; use off, or precision: bf16");
  if (config.train.recompute == "selective") {
    refuse(subject, key,
           "on computes GELU from sums that are not rounded yet, which train.recompute: selective "
           "cannot do again in backward; use off, or train.recompute: none or full");
  }
}

}  // namespace

void check_support(const Subject& subject) {
  for (const Field& field : all_fields()) {
    const Unbuilt& unbuilt = field.unbuilt;
    if (unbuilt.only.empty() || (subject.purpose != Purpose::train && !unbuilt.always)) continue;
    const std::string value = format_value(field, subject.config);
    if (value != unbuilt.only) {
      refuse(subject, field.key, "{} cannot be honoured: {}; use {}", value, unbuilt.reason,
             unbuilt.only);
    }
  }
}

void check_device(const Subject& subject) {
  const Config& config = subject.config;
  if (config.device.type == "cuda" && !subject.environment.cuda_in_build) {
    refuse(subject, "device.type",
           "cuda is part of the cuda backend, which this build lacks; use cpu or auto");
  }
  const std::string& precision = config.precision;
  if (config.device.type == "cpu" && precision == "tf32") {
    refuse(subject, "precision",
           "tf32 is how the tensor cores of a GPU multiply fp32; on the CPU use fp32, bf16, fp16, "
           "fp8 or auto");
  }
  if (precision == "fp8" && config.model.family != "gpt2") {
    refuse(subject, "precision",
           "fp8 is for the linear layers of transformer blocks, and model.family: {} has none; use "
           "bf16 or fp16",
           config.model.family);
  }
  check_fused_epilogues(subject);
  if (config.comm.max_ctas > 0 && config.comm.min_ctas > config.comm.max_ctas) {
    refuse(subject, "comm.min_ctas", "{} is more than comm.max_ctas = {}", config.comm.min_ctas,
           config.comm.max_ctas);
  }
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
