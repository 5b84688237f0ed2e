// SPDX-License-Identifier: Apache-2.0
#include "launch/job/run_report.h"

#include <algorithm>

#include "launch/plan/step_plan.h"
#include "runtime/base/log.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/options.h"
#include "runtime/ops/attention/attention.h"

namespace trireme {
Reporter::Reporter(const Config& config, const std::string& requested,
                   const RunEnvironment& environment, const ModelTraits& traits,
                   const RunFacts& facts, std::optional<std::int64_t> done)
    : directory(config.run.directory, done.has_value()),
      metrics(directory.metrics_path(), item_kind(traits), done),
      console(console_options(config, traits, facts)) {
  log::keep_in(directory.log_path());
  directory.write_config(to_yaml(with_absolute_paths(config)));
  directory.write_user_config(requested);
  directory.write_environment(environment);
}

std::uint64_t peak_memory_of_any_rank(Session& session) {
  const auto peak =
      largest_of_any_rank<1>(*session.world, {static_cast<std::int64_t>(peak_resident_bytes())});
  return static_cast<std::uint64_t>(peak[0]);
}

void log_start(const Session& session, const Dataset& dataset) {
  const Config& config = session.config;
  const ParallelConfig& parallel = config.parallel;
  log::get("train").info("{}: {} parameters, {} on {} rank(s), data {} x tensor {} x pipeline {}",
                         config.model.family, parameter_count(session.layers), config.precision,
                         session.world->size(), parallel.data, parallel.tensor, parallel.pipeline);
  if (parallel.pipeline > 1 || parallel.zero > 0 || config.reproducibility == "layout") {
    log::get("train").info(
        "schedule {}, ZeRO {}, recompute {}, tensor blocks {}, reproducibility {}",
        parallel.schedule, parallel.zero, config.train.recompute,
        std::max<std::int64_t>(parallel.virtual_tensor, 1), config.reproducibility);
  }
  if (session.device->type() == DeviceType::cuda) {
    log::get("train").info("attention and convolution: {}",
                           ops::attention_backend(session.device->type()));
  }
  if (config.device.graphs == "step" && parallel.pipeline > 1) {
    log::get("train").info(
        "device.graphs: step: steps run without graphs, for the transfers of a pipeline's stages "
        "reach from one step into the next; layer records their layers");
  }
  log::get("train").info("{} samples in {}; {} steps of {} samples", dataset.size(),
                         config.data.path, config.train.steps, config.train.global_batch);
}

void log_memory(Session& session, const Optimizer& optimizer) {
  const ParamStore& params = session.model->params();
  const auto bytes = largest_of_any_rank<4>(
      *session.world, {static_cast<std::int64_t>(params.parameter_bytes()),
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

void log_bubble(Session& session, const PipelineRunner& runner, const BubbleMeter& meter) {
  const ScheduleShape& shape = runner.shape();
  if (shape.stages == 1) return;
  const BubbleReport report = meter.report(session.mesh.pipeline());
  if (session.world->rank() != 0) return;
  log::get("train").info(
      "pipeline bubble: measured {:.1f} %, predicted {:.1f} % from the stages' times, {:.1f} % "
      "with equal stages ({} x {} micro-batches, {})",
      100 * report.measured, 100 * report.predicted, 100 * report.ideal, shape.stages,
      shape.micro_batches, name_of(shape.kind));
}

}  // namespace trireme
