// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/prometheus_families.h"

#include "runtime/telemetry/export/export_facts.h"

namespace trireme {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct Suffix {
  std::string_view ours, theirs;
  double factor;
};
constexpr Suffix suffixes[] = {{"_gflops_per_s", "_flops_per_second", 1e9},

                               {"_per_s", "_per_second", 1},
                               {"_ms", "_seconds", 1e-3},
                               {"_s", "_seconds", 1}};

// From the metric's name; all empty if the name has no unit.
Suffix suffix_of(const MetricInfo& metric) {
  for (const Suffix& suffix : suffixes)
    if (metric.name.ends_with(suffix.ours)) return suffix;
  return {"", "", 1};
}

ClientMetric sample(const MetricInfo& metric, const std::string& run, double value) {
  ClientMetric sample;
  sample.label = {{"run", run}};
  const double converted = value * suffix_of(metric).factor;
  sample.counter.value = converted;
  sample.gauge.value = converted;
  return sample;
}

MetricFamily family(const MetricInfo& metric, ItemKind kind) {
  return {.name = prometheus_name(metric, kind),
          .help = std::string(metric.meaning),
          .type = metric.kind == MetricKind::counter ? MetricType::Counter : MetricType::Gauge,
          .metric = {}};
}

template <typename Rows, typename Values>
void add(std::vector<MetricFamily>& to, const Rows& rows, const Values& values, ItemKind kind,
         const std::string& run) {
  for (const auto& row : rows) {
    const auto value = row.value(values);
    if (!value) continue;
    to.push_back(family(row, kind));
    to.back().metric.push_back(sample(row, run, *value));
  }
}

}  // namespace

std::string prometheus_name(const MetricInfo& metric, ItemKind kind) {
  const Suffix suffix = suffix_of(metric);
  std::string name = name_for(metric.name, kind);
  name.resize(name.size() - suffix.ours.size());
  return "trireme_" + name + std::string(suffix.theirs) +
         (metric.kind == MetricKind::counter ? "_total" : "");
}

PrometheusState::PrometheusState(const ExportFacts& facts)
    : items_(facts.items),
      run_(facts.name),
      state_{.steps = facts.done.value_or(0), .last_report = facts.start, .running = true} {}

void PrometheusState::step(const StepMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  step_ = metrics;
  state_.steps = metrics.step;
  state_.last_report = metrics.time;
}

void PrometheusState::evaluation(const EvaluationMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  evaluation_ = metrics;
  state_.last_report = metrics.time;
}

void PrometheusState::failed_save() {
  const std::lock_guard lock(mutex_);
  ++state_.failed_saves;
}

void PrometheusState::end() {
  const std::lock_guard lock(mutex_);
  state_.running = false;
}

std::vector<MetricFamily> PrometheusState::families() const {
  const std::lock_guard lock(mutex_);
  std::vector<MetricFamily> families;
  add(families, run_metrics(), state_, items_, run_);
  if (step_) add(families, step_metrics(), *step_, items_, run_);
  if (!evaluation_) return families;
  add(families, evaluation_metrics(), *evaluation_, items_, run_);
  for (const SourceValue& of : values_of_sources(*evaluation_)) {
    ClientMetric part = sample(*of.metric, run_, of.value);
    part.label.push_back({"source", of.source});
    const std::string name = prometheus_name(*of.metric, items_);
    for (MetricFamily& whole : families)
      if (whole.name == name) whole.metric.push_back(part);
  }
  return families;
}

}  // namespace trireme
