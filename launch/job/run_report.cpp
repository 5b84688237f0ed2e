// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_report.h"

#include "data/hdf5/shard_facts.h"
#include "data/shard/read_times.h"
#include "launch/engine/memory_plan.h"
#include "launch/engine/options.h"
#include "models/config.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl.h"
#include "runtime/ops/common/library_version.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

ExportFacts export_facts(const Config& config, const RunEnvironment& environment,
                         const ModelTraits& traits, std::optional<std::int64_t> done) {
  return {.directory = config.run.directory,
          .name = config.run.directory,
          .items = item_kind(traits),
          .done = done,
          .config = to_yaml(with_absolute_paths(config)),
          .keys = values_by_key(config),
          .command_line = recorded_command_line(environment),
          .start = std::chrono::system_clock::now()};
}

// Writes the files that the certificate hashes.
CertificateStart certified_start(const RunDirectory& directory, const Config& config,
                                 const std::string& requested, const RunEnvironment& environment,
                                 std::uint64_t data, std::int64_t done) {
  const std::string routing = routing_text(config);
  directory.write_config(to_yaml(with_absolute_paths(config)));
  directory.write_user_config(requested);
  directory.write_environment(environment);
  return {.after = done,
          .config = file_digest(directory.config_path()),
          .user_config = file_digest(RunDirectory::user_config_in(config.run.directory)),
          .environment = file_digest(RunDirectory::environment_in(config.run.directory)),
          .data = digest_text(data),
          .seed = config.run.seed,
          .program = build_text(),
          .binary = file_digest("/proc/self/exe"),
          .libraries = environment.libraries,
          .layout = layout_text(config.parallel),
          .mode = fmt::format("{}, {}{}{}", name_of(config.reproducibility),
                              name_of(config.precision), routing.empty() ? "" : ", ", routing),
          .hosts = environment.hosts,
          .weight_digests = config.telemetry.weight_digests,
          .time = std::chrono::system_clock::now()};
}

ExportChoice export_choice(const TelemetryConfig& config) {
  return {.tensorboard = config.tensorboard,
          .prometheus = config.prometheus,
          .prometheus_port = static_cast<int>(config.prometheus_port),
          .prometheus_address = config.prometheus_address};
}

}  // namespace

std::string layout_text(const ParallelConfig& parallel) {
  return fmt::format("{}, ZeRO {}", mesh_text(parallel), zero_text(parallel));
}

Reporter::Reporter(const Config& config, const std::string& requested,
                   const RunEnvironment& environment, const ModelTraits& traits,
                   const RunFacts& facts, Data data, std::optional<std::int64_t> done)
    : directory(config.run.directory, done.has_value()),
      log(directory.metrics_path(), item_kind(traits), done),
      ranks(directory.ranks_path(),
            {.step = done.value_or(0),
             .lost = log.lost(),
             .hosts = environment.hosts,
             .facts = facts,
             .time = std::chrono::system_clock::now()},
            done.has_value()),
      console(console_options(config, traits, facts)),
      certificate(directory.certificate_path(),
                  certified_start(directory, config, requested, environment, data.fingerprint,
                                  done.value_or(0)),
                  done.has_value(), item_kind(traits), std::move(data.samples)),
      exporters(export_choice(config.telemetry), export_facts(config, environment, traits, done)) {
  log::keep_in(directory.log_path());
  // Before the certificate: then it covers all of metrics.jsonl even if the run dies in between.
  sinks.add(certificate);
  sinks.add(log);
  sinks.add(console);
  sinks.add(exporters);
}

void Reporter::warn(const Config& config, std::vector<std::string> hosts,
                    std::function<std::vector<std::int64_t>(std::int64_t)> samples,
                    std::function<double()> decoded_again) {
  warnings_.emplace(WarningSources{.minutes = config.telemetry.warning_minutes,
                                   .hosts = std::move(hosts),
                                   .path_of = path_of_number,
                                   .samples = std::move(samples),
                                   .decoded_again = std::move(decoded_again),
                                   .warn = [this](const RunWarning& warning) { tell(warning); }});
  sinks.add(*warnings_);
}

void Reporter::tell(const RunWarning& warning) {
  log::get("train").warn("step {}: {}", warning.step, warning.text);
  sinks.warning(warning);
}

std::uint64_t peak_memory_of_any_rank(Session& session) {
  const auto peak =
      largest_of_any_rank<1>(*session.world, {static_cast<std::int64_t>(peak_resident_bytes())});
  return static_cast<std::uint64_t>(peak[0]);
}

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> versions = {
      {"MPI", mpi_library_version()}, {"HDF5", hdf5_version()}, {"oneDNN", ops::onednn_version()}};
  if (const std::string nccl = nccl_library_version(); !nccl.empty()) versions["NCCL"] = nccl;
  if (const std::string cudnn = ops::cudnn_version(); !cudnn.empty()) versions["cuDNN"] = cudnn;
  if (const std::string cublaslt = ops::cublaslt_version(); !cublaslt.empty())
    versions["cuBLASLt"] = cublaslt;
  return versions;
}

}  // namespace trireme
