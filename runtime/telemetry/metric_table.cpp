// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/metric_table.h"

#include <array>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

using Value = std::optional<double>;
using S = StepMetrics;
using E = EvaluationMetrics;
constexpr auto gauge = MetricKind::gauge;
constexpr auto counter = MetricKind::counter;
constexpr auto whole = MetricDigits::whole;
constexpr auto exact = MetricDigits::exact;
constexpr auto thousandths = MetricDigits::thousandths;

template <auto member>
Value of(const S& metrics) {
  return static_cast<double>(metrics.*member);
}

template <auto member>
Value optional_of(const S& metrics) {
  return metrics.*member;
}

template <auto member>
Value traffic(const S& metrics) {
  if (!metrics.expert_traffic) return {};
  return static_cast<double>((*metrics.expert_traffic).*member);
}

// `count` per second of the step; 0 if it took no time.
double rate(const S& metrics, double count) {
  const double milliseconds = metrics.times[TimePart::step];
  return milliseconds > 0 ? 1e3 * count / milliseconds : 0.0;
}

constexpr std::array before_times{
    StepMetric{{"loss", "1", gauge, exact, "training loss, mean over the global batch"},
               of<&S::loss>},
    StepMetric{{"lr", "1", gauge, exact, "learning rate of the step"}, of<&S::learning_rate>},
    StepMetric{{"grad_norm", "1", gauge, exact, "global gradient norm before clipping"},
               of<&S::grad_norm>},
    StepMetric{{"loss_scale", "1", gauge, exact, "factor on the loss of the step (fp16)"},
               optional_of<&S::loss_scale>},
    StepMetric{{"skipped_steps", "steps", counter, whole,
                "steps so far whose update was left out because gradients overflowed (fp16)"},
               [](const S& m) {
                 return m.loss_scale ? Value(static_cast<double>(m.skipped_steps)) : Value();
               }},
    StepMetric{{"noise_scale", "samples", gauge, exact,
                "gradient noise scale (McCandlish et al., 2018), of the steps that measure it"},
               optional_of<&S::noise_scale>},
    StepMetric{{"noise_trace", "1", gauge, exact,
                "trace of a sample's gradient covariance by this step alone"},
               [](const S& m) { return m.noise_scale ? Value(m.noise_trace) : Value(); }},
    StepMetric{
        {"noise_square", "1", gauge, exact, "squared norm of the gradient by this step alone"},
        [](const S& m) { return m.noise_scale ? Value(m.noise_square) : Value(); }},
    StepMetric{
        {"spikes", "batches", counter, whole,
         "batches so far that were skipped because their loss jumped (train.spike_zscore)"},
        [](const S& m) { return m.spikes ? Value(static_cast<double>(*m.spikes)) : Value(); }},
    StepMetric{{"targets", "items", gauge, whole,
                "targets of the step that count in the loss, if not all do"},
               [](const S& m) {
                 return m.targets < m.items * m.targets_per_item
                            ? Value(static_cast<double>(m.targets))
                            : Value();
               }},
    StepMetric{{"non_finite_steps", "steps", counter, whole,
                "steps of this start that were skipped because loss or gradients were not finite"},
               [](const S& m) {
                 return m.non_finite_steps > 0 ? Value(static_cast<double>(m.non_finite_steps))
                                               : Value();
               }},
    StepMetric{{"epoch", "passes", gauge, exact, "passes over the data so far"}, of<&S::epoch>},
    StepMetric{{"items_seen", "items", counter, whole, "trained on so far, over all ranks"},
               of<&S::items_seen>},
    StepMetric{{"items_per_s", "items/s", gauge, thousandths, "throughput of all ranks together"},
               [](const S& m) { return Value(rate(m, static_cast<double>(m.items))); }},
    StepMetric{{"model_gflops_per_s", "GFLOP/s", gauge, thousandths,
                "rate of the model's own operations over all ranks: three times the forward "
                "passes, nothing for recomputation"},
               [](const S& m) {
                 const double flops = rate(m, m.flops);
                 return flops > 0 ? Value(1e-9 * flops) : Value();
               }},
    StepMetric{{"mfu", "1", gauge, thousandths,
                "model FLOPs utilization: that rate as a share of the peak of parallel.hardware"},
               [](const S& m) {
                 const double flops = rate(m, m.flops);
                 return flops > 0 && m.peak_flops > 0 ? Value(flops / m.peak_flops) : Value();
               }},
};

constexpr std::array of_experts{
    StepMetric{{"expert_max_over_mean", "1", gauge, exact,
                "tokens of the fullest expert by the mean, of the layer where that is highest"},
               [](const S& m) {
                 return m.expert_loads.empty() ? Value()
                                               : Value(worst_of(m.expert_loads).max_over_mean);
               }},
    StepMetric{{"dead_experts", "experts", gauge, whole,
                "experts without a token in the step, in all layers"},
               [](const S& m) {
                 double dead = 0;
                 for (const ExpertLoad& load : m.expert_loads)
                   dead += static_cast<double>(load.dead);
                 return m.expert_loads.empty() ? Value() : Value(dead);
               }},
    StepMetric{{"expert_passes", "passes", gauge, whole,
                "passes of micro-batches through layers whose experts several ranks share out"},
               traffic<&ExpertTraffic::passes>},
    StepMetric{
        {"expert_passes_in_rounds", "passes", gauge, whole,
         "of these, with more rows for a rank than parallel.expert_capacity_factor has memory for"},
        traffic<&ExpertTraffic::in_rounds>},
    StepMetric{{"expert_rows_off_rank", "1", gauge, exact,
                "share of the experts' rows that leave their rank"},
               traffic<&ExpertTraffic::off_rank>},
    StepMetric{{"expert_rows_off_node", "1", gauge, exact,
                "share of the experts' rows that leave their host"},
               traffic<&ExpertTraffic::off_node>},
    StepMetric{{"expert_rank_load", "1", gauge, exact,
                "rows of the rank with most by the mean over ranks, mean over the passes"},
               traffic<&ExpertTraffic::rank_load>},
};

// The worst rank's number; nothing if no rank has one.
template <auto member, bool highest>
Value of_gpus(const S& metrics) {
  Value worst;
  for (const GpuState& gpu : metrics.gpus) {
    const double value = gpu.*member;
    if (std::isfinite(value) && (!worst || (highest ? value > *worst : value < *worst)))
      worst = value;
  }
  return worst;
}

constexpr std::array of_gpu_states{
    StepMetric{{"gpu_utilization", "1", gauge, thousandths,
                "share of the time in which the least busy GPU ran a kernel, by NVML"},
               of_gpus<&GpuState::utilization, false>},
    StepMetric{
        {"gpu_memory_bytes", "bytes", gauge, whole, "used on the fullest GPU, by all processes"},
        of_gpus<&GpuState::memory_bytes, true>},
    StepMetric{{"gpu_sm_mhz", "MHz", gauge, whole, "clock of the slowest GPU's multiprocessors"},
               of_gpus<&GpuState::sm_mhz, false>},
    StepMetric{{"gpu_watts", "W", gauge, thousandths, "power of the GPU that draws most"},
               of_gpus<&GpuState::watts, true>},
    StepMetric{{"gpu_celsius", "Celsius", gauge, whole, "temperature of the hottest GPU"},
               of_gpus<&GpuState::celsius, true>},
    StepMetric{{"gpus_slowed", "GPUs", gauge, whole,
                "GPUs whose clock heat, a power brake or a hardware fault lowers"},
               [](const S& m) {
                 double slowed = 0;
                 for (const GpuState& gpu : m.gpus)
                   slowed += is_fault(gpu.slowdowns) ? 1 : 0;
                 return m.gpus.empty() ? Value() : Value(slowed);
               }},
};

constexpr StepMetric joules{
    {"joules", "J", gauge, thousandths,
     "energy of the processors, or of the GPUs, since the previous step, if all of it is counted"},
    optional_of<&S::joules>};

constexpr std::array evaluation_table{
    EvaluationMetric{{"validation_loss", "1", gauge, exact, "loss over the validation set"},
                     [](const E& m) { return Value(m.validation_loss); }},
    EvaluationMetric{
        {"accuracy", "1", gauge, exact,
         "share of the validation set's targets that were predicted correctly (classifiers)"},
        [](const E& m) { return m.quality.accuracy; }},
    EvaluationMetric{
        {"f1", "1", gauge, exact, "F1 over the validation set, mean over the classes or labels"},
        [](const E& m) { return m.quality.f1; }},
    EvaluationMetric{{"f1_micro", "1", gauge, exact,
                      "F1 of all labels of the validation set together (models of labels)"},
                     [](const E& m) { return m.quality.f1_micro; }},
    EvaluationMetric{{"auc", "1", gauge, exact,
                      "area under the ROC curve over the validation set, of two classes or mean "
                      "over the labels"},
                     [](const E& m) { return m.quality.auc; }},
    EvaluationMetric{{"r2", "1", gauge, exact,
                      "coefficient of determination over the validation set, mean over the values "
                      "(models of values)"},
                     [](const E& m) { return m.quality.r2; }},
    EvaluationMetric{{"mae", "1", gauge, exact,
                      "mean absolute error of the validation set's values (models of values); less "
                      "is better"},
                     [](const E& m) { return m.quality.mae; }},
    EvaluationMetric{
        {"vrmse", "1", gauge, exact,
         "root of the mean squared error over a map by its deviation, mean over the channels and "
         "the validation set's samples (models of maps of values); 1 is the mean's; less is "
         "better"},
        [](const E& m) { return m.quality.vrmse; }},
    EvaluationMetric{
        {"mean_iou", "1", gauge, exact,
         "intersection of predicted and true pixels by their union, mean over the classes and the "
         "validation set's samples (models of pixels)"},
        [](const E& m) { return m.quality.mean_iou; }},
    EvaluationMetric{
        {"mean_dice", "1", gauge, exact,
         "intersection of predicted and true pixels by the mean of their numbers, mean over the "
         "classes but the first and the validation set's samples (models of pixels)"},
        [](const E& m) { return m.quality.mean_dice; }},
    EvaluationMetric{{"evaluation_ms", "ms", gauge, thousandths, "time of the evaluation"},
                     [](const E& m) { return Value(m.evaluation_ms); }},
};

constexpr std::array run_table{
    RunMetric{{"running", "1", gauge, whole,
               "1 while the run trains, 0 after its end; it stays 1 if the process was killed"},
              [](const RunProgress& s) { return Value(s.running ? 1 : 0); }},
    RunMetric{
        {"steps_done", "steps", counter, whole, "steps done, those of earlier starts included"},
        [](const RunProgress& s) { return Value(static_cast<double>(s.steps)); }},
    RunMetric{{"last_report_timestamp_s", "s", gauge, thousandths,
               "when the newest of these numbers was reported, since 1970"},
              [](const RunProgress& s) {
                return Value(
                    std::chrono::duration<double>(s.last_report.time_since_epoch()).count());
              }},
    RunMetric{{"failed_saves", "saves", counter, whole,
               "checkpoints of this start that could not be written"},
              [](const RunProgress& s) { return Value(static_cast<double>(s.failed_saves)); }},
};

}  // namespace

std::span<const RunMetric> run_metrics() {
  return run_table;
}

std::span<const StepMetric> step_metrics() {
  static const std::vector<StepMetric> all = [] {
    std::vector<StepMetric> rows(before_times.begin(), before_times.end());
    rows.insert(rows.end(), of_experts.begin(), of_experts.end());
    for (const TimeRow& row : times_in_order(time_use::metric))
      rows.push_back({{row.key, "ms", gauge, thousandths, row.meaning}, nullptr, row.part});
    rows.push_back(joules);
    rows.insert(rows.end(), of_gpu_states.begin(), of_gpu_states.end());
    return rows;
  }();
  return all;
}

std::span<const EvaluationMetric> evaluation_metrics() {
  return evaluation_table;
}

std::string name_for(std::string_view name_or_unit, ItemKind kind) {
  constexpr std::string_view items = "items";
  std::string name(name_or_unit);
  if (name_or_unit.starts_with(items)) name.replace(0, items.size(), name_of(kind));
  return name;
}

}  // namespace trireme
