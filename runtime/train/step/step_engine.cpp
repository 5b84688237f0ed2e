// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/step_engine.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/device/range.h"
#include "runtime/device/trace/trace_log.h"
#include "runtime/ops/loss/cross_entropy.h"

namespace trireme {
namespace {

constexpr std::size_t rng_bytes = 2 * sizeof(std::uint64_t);  // seed, step
constexpr std::size_t loss_scale_bytes = ops::LossScaleState::count * sizeof(float);

ReducerOptions reducer_options(const Model& model, const StepOptions& options) {
  ReducerOptions reducer = options.reducer;
  for (int chunk = 0; chunk < model.chunk_count(); ++chunk)
    reducer.chunks.push_back(model.units(chunk));
  return reducer;
}

double thread_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

StepEngine::Slot::Slot(Device& device, const ProcessMesh& mesh, const StepOptions& options)
    : totals(device, mesh, options.batch.slices.largest(), options.batch.slices.turns(),
             options.batch.blocks),
      exchange(device, mesh),
      norm_host(device, sizeof(float), MemoryKind::host),
      scale_host(device, loss_scale_bytes, MemoryKind::host),
      guard_host(device, ops::LossGuardState::count * sizeof(double), MemoryKind::host),
      rng(device, rng_bytes, MemoryKind::device),
      rng_host(device, rng_bytes, MemoryKind::host),
      start(device.make_event(EventKind::timed)),
      updated(device.make_event(EventKind::timed)),
      reduce_begin(device.make_event(EventKind::timed)),
      reduce_end(device.make_event(EventKind::timed)) {}

StepEngine::StepEngine(Device& device, Model& model, const ProcessMesh& mesh, Streams& streams,
                       const TensorGroup* tensor, const StepOptions& options,
                       const TensorGroup* experts, const TensorGroup* context_group)
    : device_(device),
      mesh_(mesh),
      model_(model),
      streams_(streams),
      tensor_(tensor),
      experts_(experts),
      context_group_(context_group),
      options_(options),
      reducer_(device, {mesh.zero(), mesh.replicas(), &mesh.expert_zero(), &mesh.expert_replicas()},
               model.params(), *streams.compute, *streams.comm, reducer_options(model, options)),
      ties_(device, mesh.pipeline(), model.params()),
      gatherer_(device, mesh.gather(), model.params(), *streams.compute, streams.gathers(),
                &streams.stalls, &mesh.expert_gather()),
      groups_(device, mesh, *streams.comm, &streams.stalls),
      norm_(device, model.params(), options.gradients.clip_norm, options.layout_independent,
            groups_),
      scaler_(options.gradients.loss_scale
                  ? std::make_unique<LossScaler>(device, *options.gradients.loss_scale)
                  : nullptr),
      guard_(device, options.gradients.loss_guard),
      optimizer_(device, model.params(),
                 {.config = options.optimizer,
                  .groups = groups_,
                  .exact = options.layout_independent,
                  .chain = options.chain,
                  .transforms = transforms()}),
      runner_(device, model, mesh.pipeline(), *streams.compute, options.pipeline),
      views_(model, options.observers),
      batches_(streams, batches_held(options.pipeline, mesh.here().pipeline)),
      weights_changed_(static_cast<std::size_t>(options.pipeline.chunks), true) {
  const int sample = sample_of(mesh.shape(), mesh.here());
  TRIREME_EXPECTS(options.batch.slices.ranks() == mesh.shape().sample_ranks() &&
                      options.batch.slices.of(sample).count == options.pipeline.micro_batches,
                  "{} micro-batches of sample rank {}, for slices {}",
                  options.pipeline.micro_batches, sample, options.batch.slices.to_string());
  for (auto& slot : slots_)
    slot = std::make_unique<Slot>(device, mesh, options);
  for (auto& end : ends_)
    end = device.make_event(EventKind::timed);
  if (experts != nullptr) {
    expert_meter_.emplace(device);
    expert_meter_->nodes = options.expert_nodes;
  }
  model_.set_hook(this);
  if (options.graphs == GraphMode::layer) model_.use_layer_graphs();
  records_ = options.graphs == GraphMode::step && options.pipeline.stages == 1;
  if (records_ || model.token_losses()) batches_.fix(device, options.pipeline.micro_batches);
  if (!model.token_losses()) return;
  data_group_.emplace(device, mesh.data(), *streams.comm, &streams.stalls);
  token_totals_ = Buffer(device, 2 * sizeof(double), MemoryKind::device);
}

std::vector<GradientTransform*> StepEngine::transforms() {
  std::vector<GradientTransform*> all = options_.gradients.transforms;
  all.insert(all.end(), {&norm_, scaler_.get(), &guard_});
  std::erase(all, nullptr);
  return all;
}

StepEngine::~StepEngine() {
  model_.set_hook(nullptr);
}

int StepEngine::batches_held(const ScheduleShape& shape, int stage) {
  std::vector<int> uses(static_cast<std::size_t>(shape.micro_batches));
  const auto actions = stage_actions(shape, stage);
  for (const Action& action : actions)
    uses[static_cast<std::size_t>(action.micro_batch)] += is_compute(action.kind) ? 1 : 0;
  int oldest = 0, newest = 0, held = 1;
  for (const Action& action : actions) {
    if (!is_compute(action.kind)) continue;
    newest = std::max(newest, action.micro_batch);
    held = std::max(held, newest - oldest + 1);
    --uses[static_cast<std::size_t>(action.micro_batch)];
    while (oldest < shape.micro_batches && uses[static_cast<std::size_t>(oldest)] == 0)
      ++oldest;
  }
  return held;
}

std::int64_t StepEngine::targets_of(std::int64_t step) const {
  const std::int64_t micro_batches = options_.batch.sizes.at
                                         ? options_.batch.sizes.at(step)
                                         : options_.batch.slices.micro_batches();
  return options_.batch.targets_per_micro_batch * micro_batches;
}

std::int64_t StepEngine::targets_before(std::int64_t step) const {
  const std::int64_t micro_batches = options_.batch.sizes.before
                                         ? options_.batch.sizes.before(step)
                                         : step * options_.batch.slices.micro_batches();
  return options_.batch.targets_per_micro_batch * micro_batches;
}

void StepEngine::set_size(std::int64_t step) {
  const BatchSlices& whole = options_.batch.slices;
  targets_ = targets_of(step);
  global_micro_batches_ = static_cast<int>(targets_ / options_.batch.targets_per_micro_batch);
  const bool smaller = global_micro_batches_ != whole.micro_batches();
  TRIREME_EXPECTS(!smaller || (whole.equal() && global_micro_batches_ < whole.micro_batches() &&
                               global_micro_batches_ % whole.ranks() == 0),
                  "step {} of {} micro-batches on {} data ranks", step, global_micro_batches_,
                  whole.ranks());
  const BatchSlices slices =
      smaller ? BatchSlices::even(global_micro_batches_, whole.ranks(), whole.turns()) : whole;
  micro_batches_ = slices.of(sample_of(mesh_.shape(), mesh_.here()));
  reducer_.set_micro_batches(static_cast<int>(micro_batches_.count));
}

void StepEngine::run(std::int64_t step, BatchSource& source) {
  Slot& slot = slot_of(step);
  slot_ = &slot;
  set_comm_step(step + 1);  // as reports number steps
  set_size(step);
  Stream& compute = *streams_.compute;
  auto* const rng = reinterpret_cast<std::uint64_t*>(slot.rng_host.data());
  rng[0] = options_.seed;
  rng[1] = static_cast<std::uint64_t>(step);
  optimizer_.prepare(step, options_.schedule.at(step));
  if (options_.flags) slot.exchange.stage(options_.flags(), last_read_.step, last_read_.times);
  const double waited = source.wait_seconds(), computed = thread_cpu_seconds(),
               messages = message_wait_seconds();
  const bool on_cpu = device_.type() == DeviceType::cpu;
  const CoreWaitCount begun = on_cpu ? core_waits_.read() : CoreWaitCount{};
  slot.times = std::exchange(pause_, {});
  const bool rehearses = !began_ && device_.type() == DeviceType::cuda &&
                         (options_.pipeline.stages > 1 || options_.rehearsed);
  if (rehearses) {
    batches_.begin_step(source, micro_batches_.count);
    rehearse(step, slot);
    if (options_.rehearsed) options_.rehearsed(compute);
    // It may have chosen other matmuls and kernels.
    if (options_.rehearsed && options_.pipeline.stages > 1) rehearse(step, slot);
  }
  slot.follows = std::exchange(began_, true);
  slot.core = {.between = slot.follows ? begun.here - core_count_.here : 0};
  compute.record(*slot.start);
  if (!rehearses) batches_.begin_step(source, micro_batches_.count);
  if (expert_meter_) expert_meter_->begin_step(step);
  if (records_) {
    replay(step, slot);
    for (StepMeter* const meter : options_.meters)
      if (!meter->recordable()) meter->updated(step, compute, *streams_.comm);
  } else {
    enqueue(step, slot);
  }
  compute.record(*slot.updated);
  compute.record(end_of(step));
  if (expert_meter_) slot.experts = expert_meter_->counts(experts_->rank() == 0);
  slot.times[TimePart::data_wait] = 1e3 * (source.wait_seconds() - waited);
  slot.times[TimePart::message_wait] = 1e3 * (message_wait_seconds() - messages);
  if (!on_cpu) return;
  core_count_ = core_waits_.read();
  slot.core.cpu = 1e3 * (thread_cpu_seconds() - computed);
  slot.core.waits = core_count_.here - begun.here;
  slot.core.messages = std::max(0.0, core_count_.messages - begun.messages - slot.core.reduce);
  slot.core.data = core_count_.data - begun.data;
}

// In a step the host must not wait for the device, since pipeline stages wait for each other's
// messages. But operations allocate memory, plan products and load kernels at first use, and NCCL
// connects groups. The rehearsal does this without messages in flight: it runs every chunk forward
// and backward once, on the step's first batch, and reduces its gradients; again for each number of
// SMs that matmuls may leave, since plans depend on it. The step overwrites everything that this
// writes before it reads it.
void StepEngine::rehearse(std::int64_t step, Slot& slot) {
  for (const int processors : options_.beside_messages.values()) {
    rehearsed_processors_ = processors;
    rehearse_passes(step, slot);
  }
  rehearsed_processors_.reset();
}

void StepEngine::rehearse_passes(std::int64_t step, Slot& slot) {
  Stream& compute = *streams_.compute;
  const int last = static_cast<int>(micro_batches_.count) - 1;  // gradients are reduced after it
  batches_.use_first_for_all();
  streams_.stalls.begin_step(step);
  device_.copy(compute, slot.rng.data(), slot.rng_host.data(), rng_bytes);
  slot.totals.reset(compute);
  // Earlier micro-batches would have left partial sums for the last one.
  model_.params().zero_gradients(compute);
  reducer_.begin_step(step);
  gatherer_.after_update();
  const auto rehearse_chunk = [&](ActionKind kind, int chunk) {
    const Context here = context(chunk, last);
    for (int block = 0; kind != ActionKind::backward_weight && block < model_.blocks(); ++block) {
      const Context part = model_.block(here, block);
      const Tensor received =
          kind == ActionKind::forward ? model_.input(part) : model_.output_gradient(part);
      if (received.data != nullptr) device_.fill_zero(compute, received.data, received.bytes());
    }
    this->compute({kind, chunk, last});
  };
  const int chunks = options_.pipeline.chunks;
  for (int chunk = 0; chunk < chunks; ++chunk)
    rehearse_chunk(ActionKind::forward, chunk);
  for (int chunk = chunks; chunk-- > 0;) {
    rehearse_chunk(ActionKind::backward, chunk);
    if (last_use(options_.pipeline.kind) == ActionKind::backward_weight)
      rehearse_chunk(ActionKind::backward_weight, chunk);
  }
  reduce(step, slot);
  compute.synchronize();  // it has joined the comm stream
  gatherer_.forget();
}

// Nothing here may depend on `step` except the slot: values that change per step are read from
// memory.
void StepEngine::enqueue(std::int64_t step, Slot& slot) {
  Stream& compute = *streams_.compute;
  streams_.stalls.begin_step(step);
  device_.copy(compute, slot.rng.data(), slot.rng_host.data(), rng_bytes);
  slot.totals.reset(compute);
  if (scaler_)
    device_.copy(compute, slot.scale_host.data(), scaler_->state().data, loss_scale_bytes);
  if (data_group_) count_tokens();
  reducer_.begin_step(step);
  weights_changed_.assign(static_cast<std::size_t>(options_.pipeline.chunks), true);
  GradientProbe* probe = nullptr;
  for (StepMeter* const meter : options_.meters) {
    meter->begin(step, compute);
    if (GradientProbe* const own = meter->probe(step)) probe = own;
  }
  // As running sums or slices, gradients of one micro-batch do not exist separately.
  views_.begin_step(step);
  if (views_.look_at(Seen::parameter_gradient) && probe == nullptr && options_.layout_independent &&
      model_.params().options().zero.stage < 2)
    probe = &views_;
  reducer_.set_probe(probe);
  views_.parameters(compute, Seen::weights_before);
  runner_.run(step, static_cast<int>(micro_batches_.count), *this);
  reducer_.set_probe(nullptr);
  reduce(step, slot);
  views_.parameters(compute, Seen::reduced_gradient);
  update(step, slot);
}

// Context-parallel ranks have the same: the first of them counts.
void StepEngine::count_tokens() {
  Stream& compute = *streams_.compute;
  const Tensor totals = token_totals_.view(DType::f64, Shape{2});
  device_.fill_zero(compute, totals.data, totals.bytes());
  for (int m = 0; m < micro_batches_.count && mesh_.here().data % mesh_.shape().context == 0; ++m) {
    const Batch& batch = batches_.at(m);
    ops::count_targets(compute, totals.range(0, 1), batch.targets);
    ops::count_targets(compute, totals.range(1, 1),
                       batch.padded ? batch.document_starts : batch.inputs, batch.padded);
  }
  const ScopedCommLabel label("counted targets");
  data_group_->all_reduce(compute, totals);
}

// A slot's first step runs directly, which plans products and grows scratch memory; the second is
// recorded.
void StepEngine::replay(std::int64_t step, Slot& slot) {
  const auto whole = [&] {
    enqueue(step, slot);
    gatherer_.finish();  // a graph must end with all streams joined
  };
  if (!batches_.recordable()) return whole();
  if (!std::exchange(slot.warm, true) || unrecordable_) return whole();
  if (views_.wanted(step)) return whole();
  // A replayed step would appear as one span.
  if (const TraceLog* const trace = TraceLog::current(); trace != nullptr && trace->keeps())
    return whole();
  if (slot.graph == nullptr) {
    try {
      slot.graph = device_.capture(*streams_.compute, whole);
      if (!std::exchange(recorded_, true))
        log::get("train").info("steps are replayed as CUDA graphs from step {} on", step + 1);
    } catch (const Error& error) {
      if (error.code() != ExitCode::config) throw;
      log::get("train").warn("steps run without graphs from here on: {}", error.what());
      unrecordable_ = true;
      gatherer_.forget();
      return whole();
    }
  }
  slot.graph->launch(*streams_.compute);
}

void StepEngine::update(std::int64_t step, Slot& slot) {
  Stream& compute = *streams_.compute;
  set_activity("update");
  const Range range("optimizer");
  const StallPhase phase(streams_.stalls, StallPhase::update);
  optimizer_.step(compute, {.number = step,
                            .loss_scale = scaler_ ? scaler_->scale() : Tensor{},
                            .sums = slot.totals.gathered(),
                            .order = slot.totals.order(),
                            .targets = static_cast<double>(targets_),
                            .micro_batches = global_micro_batches_});
  views_.parameters(compute, Seen::weights);
  for (StepMeter* const meter : options_.meters)
    if (!records_ || meter->recordable()) meter->updated(step, compute, *streams_.comm);
  gatherer_.after_update();
  device_.copy(compute, slot.norm_host.data(), norm_.value().data, sizeof(float));
  device_.copy(compute, slot.guard_host.data(), guard_.state().data, slot.guard_host.bytes());
}

void StepEngine::reduce(std::int64_t step, Slot& slot) {
  set_activity("reduction of the gradients");
  const Range range("reduce");
  const std::span<StepMeter* const> meters =
      rehearsed_processors_ ? std::span<StepMeter* const>{} : options_.meters;
  for (StepMeter* const meter : meters)
    meter->reducing(step, *streams_.comm);
  slot.totals.publish(*streams_.compute, *streams_.comm);
  if (options_.flags) slot.exchange.publish(*streams_.comm);
  // The compute stream of a CPU runs inline, so the host's time is the step's time.
  const bool on_cpu = device_.type() == DeviceType::cpu;
  const double waited = on_cpu ? core_waits_.read().messages : 0;
  streams_.compute->record(*slot.reduce_begin);
  reducer_.finish();
  ties_.add(*streams_.comm);
  for (StepMeter* const meter : meters)
    meter->reduced(step, *streams_.comm);
  reducer_.join();  // also the published values
  streams_.compute->record(*slot.reduce_end);
  if (on_cpu) slot.core.reduce = core_waits_.read().messages - waited;
}

void StepEngine::prepare(const Action& action) {
  batches_.fetch(action.micro_batch);
}

Context StepEngine::context(int chunk, int micro_batch) {
  Context context = model_.context(*streams_.compute, batches_.at(micro_batch), /*training=*/true,
                                   chunk, micro_batch);
  context.tensor = tensor_;
  context.experts = experts_;
  context.context_group = context_group_;
  context.expert_meter = expert_meter_ ? &*expert_meter_ : nullptr;
  context.rng = slot_->rng.view(DType::u64, Shape{2});
  context.loss = options_.loss;
  context.loss.gradient_scale = 1.0F / static_cast<float>(targets_);
  if (scaler_) context.loss.loss_scale = scaler_->scale().as<float>();
  context.token_totals = reinterpret_cast<const double*>(token_totals_.data());
  context.statistic_weight = 1.0F / static_cast<float>(global_micro_batches_);
  context.gradients = &reducer_;
  return context;
}

void StepEngine::compute(const Action& action) {
  const int chunk = action.chunk, m = action.micro_batch;
  Context here = context(chunk, m);
  const bool forward = action.kind == ActionKind::forward;
  here.weights_changed = forward && weights_changed_[static_cast<std::size_t>(chunk)];
  const Range range(forward ? "forward" : "backward");
  const StallPhase phase(streams_.stalls, forward ? StallPhase::forward : StallPhase::backward);
  const ReservedProcessors reserved(*streams_.compute,
                                    rehearsed_processors_.value_or(options_.beside_messages.beside(
                                        m, static_cast<int>(micro_batches_.count))));
  if (views_.on()) {
    const auto number_of = [&](int data) {
      const int sample = sample_of(mesh_.shape(), {.data = data});
      return static_cast<int>(options_.batch.slices.number(sample, m, micro_batches_.count));
    };
    const int sharing = mesh_.shape().expert, own = mesh_.here().data;
    std::vector<int> of_sources;
    for (int data = own / sharing * sharing; std::ssize(of_sources) < sharing; ++data)
      of_sources.push_back(number_of(data));
    views_.begin_pass(number_of(own), std::move(of_sources));
    if (forward) views_.forward_begins(here);
    if (action.kind == ActionKind::backward) views_.backward_begins(here);
  }
  if (forward) {
    reducer_.before_forward(chunk, m);
    model_.forward(here);
    weights_changed_[static_cast<std::size_t>(chunk)] = false;
    reducer_.after_forward(chunk, m);
    for (int block = 0; !here.losses.empty() && block < model_.blocks(); ++block)
      slot_->totals.add(model_.block(here, block), m * model_.blocks() + block);
    return;
  }
  const bool accumulates = action.kind == last_use(options_.pipeline.kind);
  if (accumulates) reducer_.before_backward(chunk, m);
  if (action.kind == ActionKind::backward) {
    model_.backward(here);
  } else {
    model_.backward_weight(here);
  }
  if (accumulates) reducer_.after_backward(chunk, m);
}

void StepEngine::before_forward(int unit, int next) {
  gatherer_.before_use(unit, next);
}

void StepEngine::before_backward(int unit, int next) {
  gatherer_.before_use(unit, next);
  reducer_.open_unit(unit);
}

void StepEngine::after_forward(const Context& context, int index, const Layer& layer,
                               const Tensor& output) {
  if (views_.on() && context.training)
    views_.layer_done(Seen::activation, context, index, layer.name(), output);
}

void StepEngine::after_backward(const Context& context, int index, const Layer& layer,
                                const Tensor& input_gradient) {
  if (views_.on()) views_.layer_done(Seen::gradient, context, index, layer.name(), input_gradient);
}

void StepEngine::settle() {
  gatherer_.finish();
  streams_.compute->synchronize();
  runner_.synchronize();
}

}  // namespace trireme
