// SPDX-License-Identifier: Apache-2.0
// Evaluations and what depends on their results.
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

// Metrics of the evaluations of a model with such targets (qualities_of in train/evaluation.h).
std::vector<std::string_view> metrics_of(const TargetSpec& targets) {
  const TargetKind kind = targets.kind;
  std::vector<std::string_view> metrics{loss_metric};
  if (targets.is_multi_label()) return {loss_metric, "accuracy", "f1", "f1_micro", "auc"};
  if (kind == TargetKind::values) metrics.emplace_back("mae");
  if (targets.is_value_map()) metrics.emplace_back("vrmse");
  if (kind == TargetKind::values && !targets.is_value_map()) metrics.emplace_back("r2");
  const bool one_of_many = kind == TargetKind::label || kind == TargetKind::token_classes;
  if (one_of_many || kind == TargetKind::pixels) metrics.emplace_back("accuracy");
  if (one_of_many) metrics.emplace_back("f1");
  if (one_of_many && targets.classes == 2) metrics.emplace_back("auc");
  if (kind == TargetKind::pixels) metrics.insert(metrics.end(), {"mean_iou", "mean_dice"});
  return metrics;
}

void check_times(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const std::pair<std::string_view, bool> given[] = {
      {"train.eval_every", train.eval_every > 0},
      {"train.eval_every_samples", train.eval_every_samples > 0},
      {"train.stop_at", train.stop_at.given()}};
  for (const auto& [key, wanted] : given) {
    if (wanted && !subject.config.data.has_validation())
      refuse(subject, key,
             "{} needs data.validation_path (or with data.files validation_files or "
             "validation_fraction); set it or leave out this key",
             value_of(subject, key));
  }
}

void check_target(const Subject& subject) {
  constexpr std::string_view key = "train.stop_at";
  const TrainConfig& train = subject.config.train;
  const StopTarget& target = train.stop_at;
  if (!target.given()) return;
  const auto known = metrics_of(subject.family().targets(subject.config.model));
  if (std::ranges::find(known, target.metric) == known.end())
    refuse(subject, key, "metric: '{}' is none of model.family: {}; use {}", target.metric,
           subject.config.model.family, fmt::join(known, " or "));
  if (target.below.has_value() == target.above.has_value())
    refuse(subject, key, "{} for {}; give one of them, such as {{metric: {}, below: 0.5}}",
           target.below ? "both below and above" : "neither below nor above", target.metric,
           target.metric);
  if (train.eval_every == 0 && train.eval_every_samples == 0)
    refuse(subject, key,
           "needs evaluations before the last step; set train.eval_every or "
           "train.eval_every_samples");
}

void check_best(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const std::string& metric = subject.config.checkpoint.keep_best;
  if (train.patience > 0 && metric.empty())
    refuse(subject, "train.patience",
           "{} without checkpoint.keep_best, the metric that evaluations are judged by; set it, or "
           "use 0",
           train.patience);
  if (metric.empty()) return;
  const auto known = metrics_of(subject.family().targets(subject.config.model));
  if (std::ranges::find(known, metric) == known.end())
    refuse(subject, "checkpoint.keep_best", "'{}' is none of model.family: {}; use {}", metric,
           subject.config.model.family, fmt::join(known, " or "));
  if (!subject.config.data.has_validation())
    refuse(subject, "checkpoint.keep_best",
           "{} needs data.validation_path (or with data.files validation_files or "
           "validation_fraction); set it or leave out this key",
           metric);
}

void check_windows(const Subject& subject) {
  constexpr std::string_view key = "train.eval_overlap";
  const Config& config = subject.config;
  if (config.train.eval_overlap == 0) return;
  if (subject.family().targets(config.model).kind != TargetKind::pixels)
    refuse(subject, key, "{} with model.family: {}, which predicts no pixels; use 0",
           config.train.eval_overlap, config.model.family);
  if (!config.data.patches)
    refuse(subject, key,
           "{} without data.patches, so samples are no larger than the model's; use 0",
           config.train.eval_overlap);
}

struct Benchmark {
  MlperfBenchmark name;
  std::string_view family, metric;
};
constexpr Benchmark benchmarks[] = {{MlperfBenchmark::cosmoflow, "cosmoflow", "mae"},
                                    {MlperfBenchmark::deepcam, "deepcam", "mean_iou"},
                                    {MlperfBenchmark::gpt_oss_20b, "gpt_oss", loss_metric},
                                    {MlperfBenchmark::llama31_8b, "llama", loss_metric},
                                    {MlperfBenchmark::unet3d, "unet", "mean_dice"}};

void check_mllog(const Subject& subject) {
  const TelemetryConfig& telemetry = subject.config.telemetry;
  constexpr std::string_view key = "telemetry.mllog_benchmark";
  const auto* const benchmark =
      std::ranges::find(benchmarks, telemetry.mllog_benchmark, &Benchmark::name);
  const std::string_view name = name_of(telemetry.mllog_benchmark);
  const bool none = benchmark == std::end(benchmarks);
  if (telemetry.mllog.empty() != none)
    refuse(subject, key,
           "{} with telemetry.mllog: '{}'; a log needs both, such as {} and mllog.txt", name,
           telemetry.mllog, name_of(benchmarks->name));
  if (none) return;
  if (telemetry.mllog.find('/') != std::string::npos)
    refuse(subject, "telemetry.mllog",
           "{}: is not a name in run.directory; leave out its directory", telemetry.mllog);
  if (benchmark->family != subject.config.model.family)
    refuse(subject, key, "{} is for model.family: {}, and this is {}", name, benchmark->family,
           subject.config.model.family);
  const Shape sample = subject.family().targets(subject.config.model).shape;
  if (telemetry.mllog_benchmark == MlperfBenchmark::unet3d && sample.rank() != 3)
    refuse(subject, key, "{} is of volumes, and this model is of images; set model.depth", name);
  const std::vector<std::string>& submitter = telemetry.mllog_submitter;
  if (submitter.size() != 4 || (submitter[2] != "open" && submitter[2] != "closed"))
    refuse(subject, "telemetry.mllog_submitter",
           "[{}]: give organization, platform, division (open or closed) and status, such as [Lab, "
           "DGX H100, open, onprem]",
           fmt::join(submitter, ", "));
  if (subject.config.train.stop_at.metric != benchmark->metric)
    refuse(subject, "train.stop_at",
           "metric: '{}', but the log of {} says whether {} has reached its target; use {}",
           subject.config.train.stop_at.metric, name, benchmark->metric, benchmark->metric);
}

}  // namespace

void check_evaluation(const Subject& subject) {
  check_times(subject);
  check_target(subject);
  check_best(subject);
  check_windows(subject);
  check_mllog(subject);
  const std::int64_t samples = subject.config.telemetry.samples_every;
  const TargetKind kind = subject.family().targets(subject.config.model).kind;
  const bool shown =
      kind == TargetKind::label || (kind == TargetKind::tokens && subject.limits.documents);
  if (samples > 0 && !shown)
    refuse(subject, "telemetry.samples_every",
           "{} with model.family: {}, which neither continues texts nor classifies; use 0", samples,
           subject.config.model.family);
}

}  // namespace trireme::config
