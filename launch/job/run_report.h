// SPDX-License-Identifier: Apache-2.0
// What a training run says about itself: where it runs, what it holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/telemetry/certificate/certificate.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/export/exporters.h"
#include "runtime/telemetry/health/run_warnings.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/verdict/rank_log.h"

namespace trireme {

// "data 2 x tensor 1 x pipeline 1, ZeRO 0", as the certificate has it.
[[nodiscard]] std::string layout_text(const ParallelConfig& parallel);

// What only rank 0 has. Making it claims the run directory, which the run that goes on after `done`
// steps has already. `requested`: what was asked for, as YAML.
struct Reporter {
  // What the certificate says of the training data.
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
  // of the chunks that this rank decoded the share that had been before.
  void warn(const Config& config, std::vector<std::string> hosts,
            std::function<std::vector<std::int64_t>(std::int64_t)> samples,
            std::function<double()> decoded_again);
  // Logs a warning and passes it on.
  void tell(const RunWarning& warning);

 private:
  std::optional<RunWarnings> warnings_;
};

// Of the rank whose resident set was largest. Collective.
[[nodiscard]] std::uint64_t peak_memory_of_any_rank(Session& session);

}  // namespace trireme
