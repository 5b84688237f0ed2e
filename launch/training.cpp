// SPDX-License-Identifier: Apache-2.0
#include "launch/training.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "data/batch_plan.h"
#include "launch/libraries.h"
#include "launch/options.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/ops/optimizer.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/train/bubble_meter.h"
#include "runtime/train/trainer.h"

namespace trireme {
namespace {

constexpr std::size_t host_name_bytes = 64;

std::vector<std::string> gather_hosts(Session& session) {
  const auto ranks = static_cast<std::size_t>(session.world->size());
  const Buffer names(*session.device, ranks * host_name_bytes, MemoryKind::host);
  const auto own_at =
      static_cast<std::int64_t>(static_cast<std::size_t>(session.world->rank()) * host_name_bytes);
  const Tensor all = names.view(DType::u8, Shape{static_cast<std::int64_t>(names.bytes())});
  const Tensor own = all.range(own_at, host_name_bytes);
  std::memset(names.data(), 0, names.bytes());
  if (gethostname(reinterpret_cast<char*>(own.data), host_name_bytes - 1) != 0) {
    system_failed("gethostname", "this host");
  }
  session.world->all_gather(*session.streams.comm, own, all);
  session.streams.comm->synchronize();
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < ranks; ++i) {
    hosts.emplace_back(reinterpret_cast<const char*>(names.data()) + i * host_name_bytes);
  }
  return hosts;
}

// Each value becomes the largest of any rank. Collective.
template <std::size_t count>
std::array<std::int64_t, count> largest_of_any_rank(Session& session,
                                                    const std::array<std::int64_t, count>& own) {
  const Buffer buffer(*session.device, sizeof(own), MemoryKind::host);
  std::memcpy(buffer.data(), own.data(), sizeof(own));
  const Tensor tensor = buffer.view(DType::i64, Shape{static_cast<std::int64_t>(count)});
  session.world->all_reduce(*session.streams.comm, tensor, tensor, ReduceOp::max);
  session.streams.comm->synchronize();
  std::array<std::int64_t, count> result{};
  std::memcpy(result.data(), buffer.data(), sizeof(result));
  return result;
}

// What only rank 0 has.
struct Reporter {
  Reporter(const Config& config, const RunEnvironment& environment, const ModelTraits& traits)
      : directory(config.run.directory),
        metrics(directory.metrics_path(), item_kind(traits)),
        console(console_options(config, traits)) {
    directory.write_config(to_yaml(config));
    directory.write_environment(environment);
  }
  RunDirectory directory;
  MetricsLog metrics;
  Console console;
};

// A weight average beside the weights, where the config asks for one.
class AverageWeights {
 public:
  AverageWeights(Session& session, double decay)
      : session_(session), decay_(static_cast<float>(decay)) {
    if (decay == 0) return;
    const Tensor masters = session.model->params().masters();  // whole below ZeRO stage 3
    buffer_ = Buffer(*session.device, masters.bytes(), MemoryKind::device);
    session.device->copy(*session.streams.compute, buffer_.data(), masters.data, masters.bytes());
  }
  void update() {
    if (!enabled()) return;
    ops::exponential_average(*session_.streams.compute, values(),
                             session_.model->params().masters(), decay_);
  }
  [[nodiscard]] bool enabled() const { return buffer_.data() != nullptr; }
  [[nodiscard]] Tensor values() const {
    return buffer_.view(DType::f32, Shape{session_.model->params().element_count()});
  }

 private:
  Session& session_;
  float decay_;
  Buffer buffer_;
};

std::int64_t parameter_count(const Session& session) {
  std::int64_t count = 0;
  for (const PlacedParam& placed : session.placed_params())
    count += placed.spec.kind == ParamKind::weight ? placed.spec.shape.count() : 0;
  return count;
}

void log_start(const Session& session, const Dataset& dataset) {
  const Config& config = session.config;
  const ParallelConfig& parallel = config.parallel;
  log::get("train").info("{}: {} parameters, {} on {} rank(s), data {} x tensor {} x pipeline {}",
                         config.model.family, parameter_count(session), config.precision,
                         session.world->size(), parallel.data, parallel.tensor, parallel.pipeline);
  if (parallel.pipeline > 1 || parallel.zero > 0 || config.reproducibility == "layout") {
    log::get("train").info("schedule {}, ZeRO {}, recompute {}, tensor blocks {}, reproducibility {}",
                           parallel.schedule, parallel.zero, config.train.recompute,
                           std::max<std::int64_t>(parallel.virtual_tensor, 1),
                           config.reproducibility);
  }
  log::get("train").info("{} samples in {}; {} steps of {} samples", dataset.size(),
                         config.data.path, config.train.steps, config.train.global_batch);
}

// What training holds on the device, each part on the rank where it is largest. Collective.
void log_memory(Session& session, const Optimizer& optimizer) {
  const ParamStore& params = session.model->params();
  const auto bytes = largest_of_any_rank<4>(
      session, {static_cast<std::int64_t>(params.parameter_bytes()),
                static_cast<std::int64_t>(params.gradient_bytes()),
                static_cast<std::int64_t>(optimizer.state_bytes()),
                static_cast<std::int64_t>(session.model->activation_bytes())});
  if (session.world->rank() != 0) return;
  const auto mib = [](std::int64_t value) { return static_cast<double>(value) / (1 << 20); };
  log::get("train").info(
      "memory per rank at most: parameters {:.2f} MiB, gradients {:.2f} MiB, optimizer {:.2f} MiB, "
      "activations {:.2f} MiB",
      mib(bytes[0]), mib(bytes[1]), mib(bytes[2]), mib(bytes[3]));
}

// Parameters or values that go with them, whole, on rank 0. Collective.
std::vector<WholeTensor> gather(Session& session, const OwnedValues& owned, bool with_statistics) {
  return gather_whole(*session.device, session.mesh, *session.streams.comm,
                      session.model->params(), session.placed_params(), owned, with_statistics);
}

std::vector<WholeTensor> gather_weights(Session& session) {
  const ParamStore& params = session.model->params();
  return gather(session, [&](const Bucket& bucket) { return params.owned_master(bucket); }, true);
}

// The part of an arena that this rank owns. Averages exist only where the arenas are whole.
std::vector<WholeTensor> gather_average(Session& session, const AverageWeights& average) {
  const ParamLayout& layout = session.model->params().layout();
  const auto owned = [&](const Bucket& bucket) {
    return average.values().range(layout.slice_first(bucket), layout.slice_count(bucket));
  };
  return gather(session, owned, true);
}

std::string optimizer_digest(Session& session, const Optimizer& optimizer) {
  const ParamLayout& layout = session.model->params().layout();
  std::vector<WholeTensor> all;
  for (const Tensor& moments : {optimizer.first_moments(), optimizer.second_moments()}) {
    if (moments.empty()) continue;
    auto part = gather(
        session,
        [&](const Bucket& bucket) {
          return moments.range(bucket.owned, layout.slice_count(bucket));
        },
        false);
    std::ranges::move(part, std::back_inserter(all));
  }
  return digest_of(all);
}

// Files of the run directory, and what another layout's run can be compared with. Collective.
void write_results(Session& session, const StepEngine& engine, const Trainer& trainer,
                   const Reporter* reporter, const AverageWeights& average) {
  const std::map<std::string, std::string> metadata{{"format", "trireme"},
                                                    {"version", version_text()}};
  const auto weights = gather_weights(session);
  const auto averages =
      average.enabled() ? gather_average(session, average) : std::vector<WholeTensor>{};
  const bool layout = session.config.reproducibility == "layout";
  const std::string state = layout ? optimizer_digest(session, engine.optimizer()) : "";
  if (reporter == nullptr) return;
  save_weights(reporter->directory.weights_path(), weights, metadata);
  if (average.enabled())
    save_weights(reporter->directory.path() + "/weights_average.safetensors", averages, metadata);
  log::get("train").info("weights written to {}", reporter->directory.weights_path());
  log::get("train").info("final loss {:a}, weights xxh3 {}{}{}", trainer.final_loss(),
                         digest_of(weights), layout ? ", optimizer state xxh3 " : "", state);
}

// The pipeline's bubble as measured and as the schedule predicts it from the stages' own times.
// Collective over the pipeline.
void report_bubble(Session& session, const PipelineRunner& runner, const BubbleMeter& meter,
                   bool reports) {
  const ScheduleShape& shape = runner.shape();
  if (shape.stages == 1) return;
  const BubbleReport report = meter.report(*session.device, session.mesh.pipeline(),
                                           *session.streams.comm);
  if (!reports) return;
  log::get("train").info(
      "pipeline bubble: measured {:.1f} %, predicted {:.1f} % from the stages' times, {:.1f} % "
      "with equal stages ({} x {} micro-batches, {})",
      100 * report.measured, 100 * report.predicted, 100 * report.ideal, shape.stages,
      shape.micro_batches, name_of(shape.kind));
}

}  // namespace

void run_training(const RankProcess& process, const Config& config,
                  const std::vector<std::string>& command_line) {
  Session session(process, config, /*training=*/true);
  const auto dataset = session.open_dataset(config.data.path, "train");
  const Communicator& group = session.mesh.data();
  const Sampler sampler(sampler_options(config, dataset->size()));
  StepOptions options = step_options(config, session.pipeline, session.traits);
  const BatchPlan plan =
      BatchPlan::training(sampler, config.train.micro_batch, group.rank(), group.size(), 0,
                          options.assignment == Assignment::strided);

  const std::vector<std::string> hosts = gather_hosts(session);
  std::optional<Reporter> reporter;
  if (process.mpi.rank() == 0) {
    reporter.emplace(config,
                     RunEnvironment{process.mpi.size(), hosts, library_versions(), command_line},
                     session.traits);
    log_start(session, *dataset);
  }
  session.world->barrier();  // nobody trains before the run directory is known to be good

  session.model->params().initialize(*session.streams.compute, config.run.seed);
  AverageWeights average(session, config.train.ema_decay);
  if (average.enabled()) options.after_update = [&](Stream&) { average.update(); };
  StepEngine engine(*session.device, *session.model, session.mesh, session.streams, &session.tensor,
                    options);
  log_memory(session, engine.optimizer());
  std::optional<ValidationPass> validation;
  if (!config.data.validation_path.empty()) {
    validation.emplace(session, engine.runner(), config.data.validation_path);
  }
  Loader loader(*session.device, *dataset, plan,
                {.workers = config.data.workers,
                 .prefetch = config.data.prefetch,
                 .held = StepEngine::batches_held(session.pipeline, session.mesh.here().pipeline)});
  Trainer::Evaluate evaluate_now;
  if (validation) evaluate_now = [&] { return validation->run(); };
  BubbleMeter meter(engine.runner());
  Trainer trainer(engine, loader, trainer_options(config, session.traits),
                  {reporter ? &reporter->console : nullptr,
                   reporter ? &reporter->metrics : nullptr, &meter},
                  evaluate_now);
  trainer.run();
  engine.settle();

  const auto peak =
      largest_of_any_rank<1>(session, {static_cast<std::int64_t>(peak_resident_bytes())});
  write_results(session, engine, trainer, reporter ? &*reporter : nullptr, average);
  report_bubble(session, engine.runner(), meter, reporter.has_value());
  session.world->barrier();  // the last wait that has a deadline
  if (!reporter) return;
  reporter->console.finish({.totals = {},
                            .wall_seconds = trainer.wall_seconds(),
                            .evaluation_seconds = trainer.evaluation_seconds(),
                            .peak_memory_bytes = static_cast<std::uint64_t>(peak[0])});
}

}  // namespace trireme
