// SPDX-License-Identifier: Apache-2.0
// write_sample_run DIRECTORY: the files of a run that was killed after step 50 and went on from the
// checkpoint of step 40, for tests/checks/check_exports.py.
#include <chrono>
#include <cstdlib>
#include <limits>

#include "runtime/telemetry/export/exporters.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

void steps(MetricsSink& sink, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) {
    StepMetrics metrics = test::sample_step(step);
    metrics.loss = 5.0 / static_cast<double>(step);
    if (step == 45) metrics.loss = std::numeric_limits<double>::quiet_NaN();
    sink.step(metrics);
    if (step % 20 != 0) continue;
    sink.evaluation(test::sample_evaluation(step));
    sink.histograms(test::sample_histograms(step));
    sink.samples(test::sample_samples(step));
  }
}

constexpr ExportChoice all{.tensorboard = true, .prometheus = true};

void start(const std::string& directory, std::optional<std::int64_t> done, std::int64_t last) {
  ExportFacts facts = test::sample_facts(directory);
  facts.done = done;
  facts.flush_every = {};
  MetricsLog log(directory + "/metrics.jsonl", facts.items, done);
  auto exporters = std::make_unique<Exporters>(all, facts);
  MetricsSinks sinks;
  sinks.add(log);
  sinks.add(*exporters);
  steps(sinks, done.value_or(0) + 1, last);
  if (done) return exporters->finish(RunEnd::done);
  static_cast<void>(exporters.release());  // killed: the end is not written
}

}  // namespace
}  // namespace trireme

int main(int count, char** words) {
  if (count != 2) return EXIT_FAILURE;
  trireme::test::write_text(std::string(words[1]) + "/config.yaml", "train: {steps: 1000}\n");
  trireme::start(words[1], {}, 50);
  trireme::start(words[1], 40, 100);
  return EXIT_SUCCESS;
}
