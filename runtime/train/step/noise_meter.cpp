// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/noise_meter.h"

#include "runtime/comm/comm_label.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/exact_sum.h"

namespace trireme {
namespace {

constexpr std::size_t exact_bytes = 2 * ops::exact_sum_words * sizeof(std::uint64_t);

// Contiguous runs of the weights that this tensor rank counts.
template <typename Run>
std::vector<std::vector<Run>> counted_runs(const ParamLayout& layout) {
  std::vector<std::vector<Run>> runs(layout.buckets().size());
  const auto order = layout.order();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ParamSpec& spec = layout.spec(order[i]);
    const int index = layout.bucket_of(order[i]);
    const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(index)];
    if (bucket.kind != ParamKind::weight || spec.is_copy() || layout.repeats(spec)) continue;
    const auto [first, count] = layout.padded(i);
    auto& own = runs[static_cast<std::size_t>(index)];
    if (!own.empty() && own.back().first + own.back().count == first - bucket.first) {
      own.back().count += count;
    } else {
      own.push_back({first - bucket.first, count});
    }
  }
  return runs;
}

}  // namespace

NoiseMeter::NoiseMeter(Device& device, const ProcessMesh& mesh, const ParamStore& params,
                       Streams& streams, const NoiseMeterOptions& options)
    : params_(params),
      options_(options),
      counts_whole_(mesh.here().data < mesh.shape().shard),
      data_(device, mesh.data(), *streams.comm, &streams.stalls),
      model_(device, mesh.model(), *streams.comm, &streams.stalls),
      runs_(counted_runs<Run>(params.layout())),
      exact_(device, exact_bytes, MemoryKind::device),
      squares_(device, 2 * sizeof(double), MemoryKind::device),
      state_(device, ops::NoiseState::count * sizeof(double), MemoryKind::device) {
  const ParamLayout& layout = params.layout();
  for (const ParamId id : layout.order()) {
    const ParamSpec& spec = layout.spec(id);
    if (!spec.is_copy() || !layout.trains(id)) continue;
    const ParamId original = layout.find(spec.tie);
    TRIREME_EXPECTS(original.index >= 0, "{} is tied to {} of another rank", spec.name, spec.tie);
    const auto bytes = static_cast<std::size_t>(layout.bucket(id).count) * sizeof(float);
    copies_.push_back({.bucket = layout.bucket_of(id),
                       .original = layout.bucket_of(original),
                       .gradients = Buffer(device, bytes, MemoryKind::device)});
  }
  for (Buffer& host : host_)
    host = Buffer(device, state_.bytes(), MemoryKind::host);
  const auto stream = device.make_stream(StreamKind::compute);
  device.fill_zero(*stream, state_.data(), state_.bytes());  // the stream's end waits for it
}

Tensor NoiseMeter::exact(int row) const {
  return exact_.view(DType::u64, Shape{2 * ops::exact_sum_words})
      .range(row * ops::exact_sum_words, ops::exact_sum_words);
}

Tensor NoiseMeter::state() const {
  return state_.view(DType::f64, Shape{ops::NoiseState::count});
}

void NoiseMeter::begin(std::int64_t step, Stream& compute) {
  if (measures(step)) compute.device().fill_zero(compute, exact_.data(), exact_.bytes());
}

void NoiseMeter::add_micro_batch(Stream& compute, int bucket, const Tensor& gradients,
                                 int /*source*/) {
  Tensor sum = gradients;
  for (const Copy& copy : copies_) {
    if (copy.bucket != bucket && copy.original != bucket) continue;
    const Tensor kept = copy.gradients.view(DType::f32, gradients.shape);
    if (copy.bucket == bucket)
      return compute.device().copy(compute, kept.data, gradients.data, gradients.bytes());
    ops::add_in_place(compute, kept, gradients);
    sum = kept;
  }
  for (const Run& run : runs_[static_cast<std::size_t>(bucket)])
    ops::accumulate_squares_exact(compute, exact(0), sum.range(run.first, run.count));
}

void NoiseMeter::reduced(std::int64_t step, Stream& comm) {
  if (!counts_whole_ || !measures(step)) return;
  for (const OwnedRun& run : params_.layout().owned_params())
    if (run.kind == ParamKind::weight && run.counted)
      ops::accumulate_squares_exact(comm, exact(1), params_.gradients().owned(run));
}

void NoiseMeter::apply(Stream& compute, const ParamStore& /*params*/, const GradientStep& step) {
  if (!measures(step.number)) return;
  const ScopedCommLabel label("gradient noise");
  const Tensor all = exact_.view(DType::u64, Shape{2 * ops::exact_sum_words});
  data_.all_reduce(compute, all);
  model_.all_reduce(compute, all);
  const Tensor squares = squares_.view(DType::f64, Shape{2});
  ops::exact_sum_values(compute, squares, all.reshaped({2, ops::exact_sum_words}));
  ops::estimate_noise(compute, state(), squares,
                      {.small = static_cast<double>(options_.samples),
                       .micro_batches = static_cast<double>(step.micro_batches),
                       .targets = step.targets,
                       .loss_scale = step.loss_scale,
                       .sums = step.sums});
}

void NoiseMeter::updated(std::int64_t step, Stream& compute, Stream& /*comm*/) {
  if (!measures(step)) return;
  const Buffer& host = host_[static_cast<std::size_t>(step % 2)];
  compute.device().copy(compute, host.data(), state_.data(), host.bytes());
}

void NoiseMeter::read(StepReport& report) {
  if (!measures(report.step)) return;
  const auto* const values =
      reinterpret_cast<const double*>(host_[static_cast<std::size_t>(report.step % 2)].data());
  using State = ops::NoiseState;
  report.noise = {.scale = values[State::trace] / values[State::square],
                  .trace = values[State::last_trace],
                  .square = values[State::last_square]};
}

}  // namespace trireme
