// SPDX-License-Identifier: Apache-2.0
// Reports of a training run about itself: environment, memory, files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/telemetry/bottleneck/rank_log.h"
#include "runtime/telemetry/certificate/certificate.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/export/exporters.h"
#include "runtime/telemetry/health/run_warnings.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {

// "data 2 x tensor 1 x pipeline 1, ZeRO 0", as in the certificate.
[[nodiscard]] std::string layout_text(const ParallelConfig& parallel);

// State of rank 0 alone. The constructor claims the run directory; a run that continues after
// `done` steps already has it. `requested`: the config as requested, as YAML.
struct Reporter {
  // The training data's entry in the certificate.
  struct Data {
    std::uint64_t fingerprint = 0;
    Certificate::Samples samples{};
  };
  Reporter(const Config& config, const std::string& requested, const RunEnvironment& environment,
           const ModelTraits& traits, const RunFacts& facts, Data data,
           std::optional<std::int64_t> done);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  RunDirectory directory;
  MetricsLog log;
  RankLog ranks;
  Console console;
  Certificate certificate;
  Exporters exporters;
  MetricsSinks sinks;  // all of them
  // `hosts`: by rank. `samples`: of a step's global batch, steps counted from 1. `decoded_again`:
  // share of this rank's decoded chunks that were decoded before.
  void warn(const Config& config, std::vector<std::string> hosts,
            std::function<std::vector<std::int64_t>(std::int64_t)> samples,
            std::function<double()> decoded_again);
  // Logs a warning and forwards it.
  void tell(const RunWarning& warning);

 private:
  std::optional<RunWarnings> warnings_;
};

// On the rank with the largest resident set. Collective.
[[nodiscard]] std::uint64_t peak_memory_of_any_rank(Session& session);

// Names and run-time versions of the libraries that affect results and speed.
[[nodiscard]] std::map<std::string, std::string> library_versions();

}  // namespace trireme
