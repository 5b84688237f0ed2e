// SPDX-License-Identifier: Apache-2.0
#include "launch/job/mllog.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <source_location>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/config/lr_factors.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;
using LogValues = std::vector<std::pair<std::string_view, Json>>;

constexpr std::string_view first_key = "submission_benchmark", start_key = "run_start",
                           stop_key = "run_stop", clear_key = "cache_clear";

// The checker's name of the format in which attention and layers compute; fp8 is for matmuls alone.
std::string_view compute_format(Precision precision) {
  const bool bf16 = precision == Precision::bf16 || precision == Precision::fp8;
  return bf16 ? "bfloat16" : name_of(precision);
}

std::string_view message_format(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const bool compute = std::max({parallel.tensor, parallel.expert, parallel.context}) > 1 ||
                       parallel.pipeline > 1 || parallel.zero > 0 ||
                       parallel.reduce_dtype == ReduceDtype::compute;
  return compute ? compute_format(config.precision) : "fp32";
}

// Micro-batches of a rank.
std::int64_t accumulated(const Config& config) {
  const std::int64_t at_once = config.train.micro_batch * config.parallel.data;
  return (config.train.global_batch + at_once - 1) / at_once;
}

// As the benchmark's rules spell it.
std::string optimizer_name(const Config& config) {
  const OptimizerKind name = config.optimizer.name;
  if (config.telemetry.mllog_benchmark == MlperfBenchmark::deepcam) {
    if (name == OptimizerKind::lamb) return "LAMB";
    if (name == OptimizerKind::adamw) return "AdamW";
  }
  return std::string(name_of(name));
}

LogValues common_values(const Config& config, Engine& engine) {
  const TrainConfig& train = config.train;
  return {{"seed", config.run.seed.value},
          {"global_batch_size", train.global_batch},
          {"gradient_accumulation_steps", accumulated(config)},
          {"train_samples", engine.dataset()->size()},
          {"eval_samples", engine.validation().samples()},
          {"opt_name", optimizer_name(config)},
          {"opt_base_learning_rate", config.optimizer.learning_rate}};
}

// Of rates that stay but for warm-up and lr_schedule.factors.
LogValues schedule_values(const Config& config, double steps_per_epoch) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  Json epochs = Json::array(), shares = Json::array();
  std::string ignored;  // a checked config
  for (const LrFactor& factor : lr_factors(schedule.factors, ignored)) {
    epochs.push_back(static_cast<double>(factor.step) / steps_per_epoch);
    shares.push_back(factor.factor);
  }
  return {{"opt_learning_rate_warmup_epochs", warmup / steps_per_epoch},
          {"opt_learning_rate_decay_boundary_epochs", epochs},
          {"opt_learning_rate_decay_factor", shares},
          {"opt_weight_decay", config.optimizer.weight_decay}};
}

// Ruleset hpc 3.0.0.
LogValues cosmoflow_values(const Config& config, const RunFacts& facts, double steps_per_epoch) {
  LogValues values = schedule_values(config, steps_per_epoch);
  const auto warmup = static_cast<double>(config.lr_schedule.warmup_steps);
  values.insert(values.end(),
                {{"number_of_nodes", facts.hosts},
                 {"accelerators_per_node", facts.on_cpu ? 0 : facts.ranks / facts.hosts},
                 {"opt_learning_rate_warmup_factor", 1 / std::max(warmup, 1.0)}});
  return values;
}

// Rulesets training 3.0.0 to 4.0.0.
LogValues unet3d_values(const Config& config, const Shape& patch, double steps_per_epoch) {
  LogValues values = schedule_values(config, steps_per_epoch);
  const Json shape = {patch[0], patch[1], patch[2]};  // (D, H, W)
  values.insert(values.end(), {{"opt_momentum", config.optimizer.momentum},
                               {"oversampling", config.data.foreground_share},
                               {"training_input_shape", shape},
                               {"validation_input_shape", shape},
                               {"validation_overlap", config.train.eval_overlap}});
  return values;
}

// Ruleset hpc 3.0.0. Batch norm takes its statistics from the micro-batch of a rank.
LogValues deepcam_values(const Config& config, const RunFacts& facts, std::int64_t accumulated) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  const OptimizerConfig& optimizer = config.optimizer;
  const bool cosine = schedule.name == LrDecay::cosine;
  LogValues values{{"number_of_nodes", facts.hosts},
                   {"accelerators_per_node", facts.on_cpu ? 0 : facts.ranks / facts.hosts},
                   {"gradient_accumulation_frequency", accumulated},
                   {"batchnorm_group_size", 1},
                   {"opt_lr", optimizer.learning_rate},
                   {"opt_betas", optimizer.betas},
                   {"opt_eps", optimizer.epsilon},
                   {"opt_weight_decay", optimizer.weight_decay},
                   {"opt_bias_correction", true},
                   {"opt_grad_averaging", true},
                   {"opt_max_grad_norm", config.train.clip_norm},
                   {"scheduler_type", cosine ? "cosine_annealing" : name_of(schedule.name)},
                   {"scheduler_lr_warmup_steps", schedule.warmup_steps},
                   {"scheduler_lr_warmup_factor", 1}};
  if (cosine) {
    values.emplace_back("scheduler_t_max", config.train.steps - schedule.warmup_steps);
    values.emplace_back("scheduler_eta_min", optimizer.learning_rate * schedule.minimum_ratio);
  }
  if (schedule.factors.empty()) return values;
  std::string ignored;  // a checked config
  Json milestones = Json::array();
  const auto factors = lr_factors(schedule.factors, ignored);
  for (const LrFactor& factor : factors)
    milestones.push_back(factor.step);
  values.emplace_back("scheduler_milestones", std::move(milestones));
  values.emplace_back("scheduler_decay_rate", factors.front().factor);
  return values;
}

// Ruleset training 6.1.0, of llama31_8b and gpt_oss_20b.
LogValues text_values(const Config& config, std::int64_t sequence) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  const OptimizerConfig& optimizer = config.optimizer;
  const bool fp8 = config.precision == Precision::fp8,
             experts = config.telemetry.mllog_benchmark == MlperfBenchmark::gpt_oss_20b;
  const std::string_view compute = compute_format(config.precision);
  return {{"lowest_numerical_precision_in_linear", fp8 ? "fp8" : compute},
          {"lowest_numerical_precision_in_attn", compute},
          {"lowest_numerical_precision_in_comm", message_format(config)},
          {"tensor_parallelism", config.parallel.tensor},
          {"pipeline_parallelism", config.parallel.pipeline},
          {"context_parallelism", 1},
          {"expert_parallelism",
           experts ? std::max(config.parallel.expert, config.parallel.tensor) : 1},
          {"micro_batch_size", config.train.micro_batch},
          {"config_filename", config.run.directory + "/config.yaml"},
          {"max_sequence_length", sequence},
          {"max_steps", config.train.steps},
          {"opt_end_learning_rate", optimizer.learning_rate * schedule.minimum_ratio},
          {"opt_learning_rate_warmup_steps", schedule.warmup_steps},
          {"opt_learning_rate_decay_steps", config.train.steps - schedule.warmup_steps},
          {"opt_learning_rate_decay_schedule",
           fmt::format("{} with linear warmup", name_of(schedule.name))},
          {"opt_adamw_beta_1", optimizer.betas[0]},
          {"opt_adamw_beta_2", optimizer.betas[1]},
          {"opt_adamw_epsilon", optimizer.epsilon},
          {"opt_adamw_weight_decay", optimizer.weight_decay},
          {"opt_gradient_clip_norm", config.train.clip_norm}};
}

constexpr const char *point = "POINT_IN_TIME", *start_of = "INTERVAL_START",
                     *end_of = "INTERVAL_END";

std::string line_of(MlLog::Time time, const char* event, std::string_view key, Json value,
                    Json metadata = Json::object(),
                    std::source_location where = std::source_location::current()) {
  metadata["file"] = "launch/job/mllog.cpp";
  metadata["lineno"] = where.line();
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  const Json line = {{"namespace", ""},           {"time_ms", since.count()},
                     {"event_type", event},       {"key", key},
                     {"value", std::move(value)}, {"metadata", std::move(metadata)}};
  return fmt::format(":::MLLOG {}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// "" if it is none of the log's lines.
std::string key_of(std::string_view line) {
  constexpr std::string_view mark = ":::MLLOG ";
  const auto at = line.find(mark);
  if (at == line.npos) return "";
  const auto json = json_or_discarded(line.substr(at + mark.size()));
  return json.is_object() ? json.value("key", "") : "";
}

// After so many samples, of `all`.
Json place(std::int64_t samples, double all) {
  const double epochs = static_cast<double>(samples) / all;
  return {{"samples_count", samples}, {"epoch_num", epochs}, {"first_epoch_num", epochs}};
}

}  // namespace

MlLog::MlLog(Engine& engine, const TrainingStart& start, Time began)
    : config_(start.config),
      ramp_(batch_ramp(config_.train)),
      samples_(static_cast<double>(engine.dataset()->size())),
      file_(config_.run.directory + "/" + config_.telemetry.mllog, [&](std::string_view line) {
        const std::string key = key_of(line);
        if (!start.again && key == first_key) return false;  // of a run that was overwritten
        cache_cleared_ |= key == clear_key;
        started_ |= key == start_key;
        stopped_ |= key == stop_key;
        return true;
      }) {
  last_ = std::chrono::system_clock::now();
  if (!started_ && start.done == 0) {
    write_beginning(engine, start, began);
  } else if (!started_ || stopped_) {
    log::get("train").warn("telemetry.mllog: {}: {}", file_.path(),
                           stopped_ ? "is complete: nothing is added"
                                    : "lacks the beginning of this run, which resumes");
  }
}

void MlLog::write_beginning(Engine& engine, const TrainingStart& start, Time began) {
  const std::vector<std::string>& submitter = config_.telemetry.mllog_submitter;
  const auto write = [&](const LogValues& values) {
    for (const auto& [key, value] : values)
      file_.append(line_of(began, point, key, value));
  };
  const MlperfBenchmark benchmark = config_.telemetry.mllog_benchmark;
  write({{first_key, name_of(benchmark)},
         {"submission_org", submitter[0]},
         {"submission_platform", submitter[1]},
         {"submission_division", submitter[2]},
         {"submission_status", submitter[3]}});
  // Only a script with the rights for it can clear the hosts' caches.
  if (!cache_cleared_) write({{clear_key, false}});
  file_.append(line_of(began, start_of, "init_start", nullptr));
  write(common_values(config_, engine));
  const double steps_per_epoch = samples_ / static_cast<double>(config_.train.global_batch);
  write(benchmark == MlperfBenchmark::cosmoflow
            ? cosmoflow_values(config_, start.facts, steps_per_epoch)
        : benchmark == MlperfBenchmark::deepcam
            ? deepcam_values(config_, start.facts, accumulated(config_))
        : benchmark == MlperfBenchmark::unet3d
            ? unet3d_values(config_, engine.dataset()->layout().targets, steps_per_epoch)
            : text_values(config_, engine.session().traits().items_per_sample()));
  last_ = start.data_opened;
  file_.append(line_of(last_, end_of, "init_stop", nullptr));
  file_.append(line_of(last_, start_of, start_key, nullptr));
}

// A block lasts from one evaluation to the next.
void MlLog::step(const StepMetrics& metrics) {
  if (in_block_ || stopped_) return;
  in_block_ = true;
  const TrainConfig& train = config_.train;
  const std::int64_t block =
      std::max(train.eval_every_samples, train.eval_every * train.global_batch);
  Json metadata = place(ramp_.samples_before(metrics.step - 1), samples_);
  metadata["epoch_count"] = static_cast<double>(block) / samples_;
  file_.append(line_of(last_, start_of, "block_start", nullptr, std::move(metadata)));
}

void MlLog::evaluation(const EvaluationMetrics& metrics) {
  if (stopped_) return;
  const StopTarget& target = config_.train.stop_at;
  double value = metrics.validation_loss;
  for (const Quality& one : qualities)
    if (target.metric == one.key) value = (metrics.quality.*one.value).value_or(value);
  Json where = place(ramp_.samples_before(metrics.step), samples_);
  const std::chrono::duration<double, std::milli> length(metrics.evaluation_ms);
  const Time begin = metrics.time - std::chrono::duration_cast<Time::duration>(length);
  last_ = metrics.time;
  in_block_ = false;
  file_.append(line_of(begin, end_of, "block_stop", nullptr, where));
  file_.append(line_of(begin, start_of, "eval_start", nullptr, where));
  const bool error = config_.telemetry.mllog_benchmark == MlperfBenchmark::cosmoflow;
  file_.append(line_of(last_, point, error ? "eval_error" : "eval_accuracy", value, where));
  file_.append(line_of(last_, end_of, "eval_stop", nullptr, where));
  stopped_ = target.passed_by(value) || metrics.step == config_.train.steps;
  where["status"] = target.passed_by(value) ? "success" : "aborted";
  if (stopped_) file_.append(line_of(last_, end_of, stop_key, nullptr, where));
}

}  // namespace trireme
