// SPDX-License-Identifier: Apache-2.0
#include "tests/launch/report/lines.h"

#include <chrono>

#include "runtime/telemetry/metrics.h"

namespace trireme::test {
namespace {

std::chrono::system_clock::time_point at(double seconds) {
  return std::chrono::sys_days(std::chrono::year(2026) / 11 / 22) +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(
             std::chrono::duration<double>(seconds));
}

}  // namespace

std::string step_line(std::int64_t step, double loss, double seconds) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.learning_rate = 1e-3;
  metrics.grad_norm = 1;
  metrics.items = metrics.targets = 1000;
  metrics.items_seen = 1000 * step;
  metrics.times[TimePart::step] = 100;
  metrics.times[TimePart::forward] = 20;
  metrics.times[TimePart::backward] = 40;
  metrics.times[TimePart::optimizer] = 10;
  metrics.times[TimePart::data_wait] = 20;
  metrics.times[TimePart::exposed_comm] = 10;
  metrics.time = at(seconds);
  return format_json(metrics, ItemKind::tokens);
}

std::string evaluation_line(std::int64_t step, double loss, double seconds) {
  EvaluationMetrics metrics;
  metrics.step = step;
  metrics.validation_loss = loss;
  metrics.sources = {{"a\"b", loss + 1, {}}};
  metrics.evaluation_ms = 500;
  metrics.time = at(seconds);
  return format_json(metrics);
}

}  // namespace trireme::test
