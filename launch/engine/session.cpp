// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/session.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "data/loader/batch_plan.h"
#include "launch/engine/agreement/shared_inputs.h"
#include "launch/engine/autotune.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/options.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/comm/dry.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/comm/watchdog/watched.h"
#include "runtime/config/batch_slices.h"
#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/ops/update/block_sum.h"
#include "runtime/telemetry/console.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {
namespace {

// NCCL's own deadline, for the host's waits, comes after that of the watchdog, which knows more.
constexpr double nccl_grace_seconds = 10;

// Commands that do not train leave no files in the run's directory.
WatchOptions watch_options(const Config& config, bool training) {
  return {.deadline_seconds = config.parallel.timeout_seconds,
          .directory = training ? config.run.directory : std::string()};
}

// Before the ranks do anything that needs them to agree.
std::unique_ptr<Device> make_device(const RankProcess& process, const Config& config,
                                    const WatchOptions& watch) {
  const auto world = make_watched(process.mpi.world(), watch);
  require_same_program(*world);
  require_same_config(*world, config);
  return Device::create(device_type(config),
                        device_place(*world, device_type(config), config.device.share));
}

std::unique_ptr<Communicator> make_world(const RankProcess& process, Device& device,
                                         const Config& config, const WatchOptions& watch) {
  auto world = process.mpi.world();
  if (device.type() == DeviceType::cuda) {
    const double deadline = watch.deadline_seconds;
    NcclOptions options{.deadline_seconds = deadline > 0 ? deadline + nccl_grace_seconds : 0,
                        .ctas = cta_limits(config),
                        .repeatable = config.reproducibility != Reproducibility::fast,
                        .share_gpus = config.device.share};
    if (config.reproducibility == Reproducibility::layout) options.sum_blocks = ops::sum_blocks;
    world = make_nccl_world(std::move(world), device, std::move(options));
  }
  if (config.parallel.check_collectives) world = make_checked(std::move(world));
  return make_watched(std::move(world), watch);
}

// A separate stream if tensor-parallel collectives overlap with other groups'.
std::unique_ptr<Stream> tensor_stream_of(Device& device, const ProcessMesh& mesh) {
  const MeshShape& shape = mesh.shape();
  return shape.tensor * shape.expert * shape.context > 1 ? device.make_stream(StreamKind::comm)
                                                         : nullptr;
}

// None if `own` has one data rank.
std::optional<TensorGroup> group_of_data_ranks(Device& device, int ranks, Communicator& own,
                                               Stream* stream, StallClock& stalls) {
  if (ranks == 1) return std::nullopt;
  return TensorGroup(device, own, *stream, &stalls);
}

OwnModel model_of(const Config& config, const OwnModel* own) {
  if (own != nullptr) return *own;
  return {make_chain(config), traits_of(config.model)};
}

std::shared_ptr<const Dataset> validation_data(Session& session,
                                               std::shared_ptr<const Dataset> own) {
  if (own) return own;
  return open_dataset(*session.world, session.config, DataPart::validation);
}

// The same samples on every layout.
std::int64_t samples_evaluated(const TrainConfig& train, std::int64_t available) {
  const bool all = train.eval_batches == 0 || train.eval_batches > available / train.global_batch;
  return all ? available : train.eval_batches * train.global_batch;
}

struct NamedPart {
  std::string name;  // "": the only one
  std::int64_t first = 0, samples = 0;
};

// The parts that are evaluated separately.
std::vector<NamedPart> parts_of(const Dataset& dataset) {
  if (dataset.sources().empty()) return {{"", 0, dataset.size()}};
  std::vector<NamedPart> parts;
  std::int64_t first = 0;
  for (const NamedDataset& source : dataset.sources()) {
    parts.push_back({source.name, first, source.data->size()});
    first += source.data->size();
  }
  return parts;
}

// Under another launcher's process manager, each process would be a separate MPI job, and all would
// train alone and overwrite each other. Without MPI they connect over TCP.
void check_launcher(int ranks) {
  const char* const wanted = std::getenv("WORLD_SIZE");
  const char* const rank = std::getenv("RANK");
  if (wanted == nullptr || rank == nullptr || ranks > 1 ||
      environment_number("WORLD_SIZE", 1, std::numeric_limits<int>::max()).value_or(1) == 1)
    return;
  fail(ExitCode::config,
       "RANK={} and WORLD_SIZE={} are set, but MPI started only this process; start the ranks with "
       "mpirun -np {} or srun --mpi=pmix, or each without mpirun but with MASTER_ADDR and "
       "MASTER_PORT, or unset RANK and WORLD_SIZE to train on one rank",
       rank, wanted, wanted);
}

}  // namespace

std::vector<double> flops_of_layers(const OwnModel& model, const Config& config) {
  Config whole = config;
  whole.parallel.spatial = {1, 1, 1};
  whole.parallel.spatial_slabs.clear();
  const SampleLayout sample = sample_layout(whole, model.traits);
  if (sample.inputs.count() == 0) {
    fail(ExitCode::config,
         "parallel.stage_layers: not given, and the traits of the program's model have no sizes of "
         "samples, by which layers would be weighed; give one of both");
  }
  const BuildOptions all = build_options(whole, /*here=*/{}, /*training=*/true);
  const BuildOptions options{.micro_batch = 1,
                             .training = true,
                             .separate_documents = all.separate_documents,
                             .adapters = all.adapters,
                             .rules = all.rules};
  const auto dry = make_dry_device(DeviceType::cpu);
  const BatchMemory memory(*dry, sample, options.micro_batch, MemoryKind::device);
  return forward_flops(model.chain, options, *dry, memory.batch);
}

DeviceType device_type(const Config& config) {
  return config.device.type == DeviceChoice::cuda ? DeviceType::cuda : DeviceType::cpu;
}

DevicePlace device_place(Communicator& world, DeviceType type, bool share) {
  std::string own = host_name();
  if (type == DeviceType::cuda) {
    for (const GpuFacts& gpu : cuda_facts().gpus)
      own += " " + gpu.id;
  }
  const std::vector<std::string> all = gather_texts(world, own);
  return {.local_rank = static_cast<int>(std::count(all.begin(), all.begin() + world.rank(), own)),
          .local_size = static_cast<int>(std::ranges::count(all, own)),
          .share = share};
}

MeshShape mesh_shape(const ParallelConfig& parallel) {
  return {.pipeline = static_cast<int>(parallel.pipeline),
          .data = static_cast<int>(parallel.data_ranks()),
          .tensor = static_cast<int>(parallel.inner_ranks()),
          .shard = static_cast<int>(parallel.shard()),
          .expert = static_cast<int>(parallel.expert_data_ranks()),
          .context = static_cast<int>(parallel.context)};
}

RankProcess::RankProcess()
    : mpi((enlarge_thread_stacks(), static_cast<void>(prepare_gpu_environment()), nullptr),
          nullptr) {
  log::initialize(mpi.rank());
  set_process_label(mpi.rank(), mpi.size());
  check_launcher(mpi.size());
}

Environment RankProcess::environment() const {
  const std::vector<GpuFacts> gpus = cuda_facts().gpus;
  return {.ranks = mpi.size(),
          .cuda_in_build = Device::in_build(DeviceType::cuda),
          .gpus = Device::count(DeviceType::cuda),
          .native_bf16 = cpu_has_bf16(),
          .capability = gpus.empty() ? 0 : gpus.front().capability,
          .hosts = mpi.hosts()};
}

RankResources open_resources(const RankProcess& process, const Config& config, bool training) {
  const WatchOptions watch = watch_options(config, training);
  auto device = make_device(process, config, watch);
  auto world = make_world(process, *device, config, watch);
  auto watchdog = training ? keep_watchdog(watch) : nullptr;
  if (config.device.autotune != "off") use_tuned_gemms(*world, *device, config.device.autotune);
  ProcessMesh mesh(*world, mesh_shape(config.parallel));
  return {std::move(device), std::move(world), std::move(watchdog), std::move(mesh)};
}

RankResources single_resources(std::shared_ptr<Device> device) {
  auto world = make_single_communicator();
  ProcessMesh mesh(*world, MeshShape{});
  return {std::move(device), std::move(world), nullptr, std::move(mesh)};
}

RankResources dry_resources(const Config& config, int rank) {
  const MeshShape shape = mesh_shape(config.parallel);
  auto world = make_dry_communicator(rank, shape.size(), "world");
  ProcessMesh mesh = ProcessMesh::dry(*world, shape);
  return {make_dry_device(device_type(config)), std::move(world), nullptr, std::move(mesh),
          /*dry=*/true};
}

Session::Session(RankResources resources, const Config& resolved, bool training,
                 const OwnModel* own, const DecodeShape& decode_shape)
    : config(resolved),
      what(model_of(config, own)),
      decode(decode_shape),
      dry(resources.dry),
      device(std::move(resources.device)),
      world(std::move(resources.world)),
      watchdog(std::move(resources.watchdog)),
      mesh(std::move(resources.mesh)),
      streams(*device, mesh.shape().shard > 1),
      tensor_stream(tensor_stream_of(*device, mesh)),
      tensor(*device, mesh.tensor(), tensor_stream ? *tensor_stream : *streams.comm,
             &streams.stalls),
      wide_experts(group_of_data_ranks(*device, mesh.shape().expert, mesh.experts(),
                                       tensor_stream.get(), streams.stalls)),
      experts(wide_experts        ? &*wide_experts
              : tensor.size() > 1 ? &tensor
                                  : nullptr),
      context(group_of_data_ranks(*device, mesh.shape().context, mesh.context(),
                                  tensor_stream.get(), streams.stalls)),
      pipeline(pipeline_shape(config, training, sample_of(mesh.shape(), mesh.here()))) {
  if (training) mesh.set_doubled(static_cast<int>(batch_slices(config).doubled()));
  streams.compute->set_policy({.matmul = config.precision == Precision::tf32
                                             ? MatmulPrecision::tf32
                                             : MatmulPrecision::fp32,
                               .reproducible = config.reproducibility != Reproducibility::fast,
                               .fused_epilogues = config.device.fused_epilogues,
                               .reserved_processors = reserved_processors(config)});
  layers = summarize(what.chain, device->type(), build_options(training, decode));
  if (virtual_stages(pipeline) > 1 && config.parallel.stage_layers.empty()) {
    const auto flops = flops_of_layers(what, config);
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].forward_flops = flops[i];
  }
  stages = plan_stages(layers, pipeline, config.parallel.stage_layers);
  model = make_part(training);
}

BuildOptions Session::build_options(bool training, const DecodeShape& shape) const {
  BuildOptions options = trireme::build_options(config, mesh.here(), training, shape);
  options.context.positions = traits().context;
  return options;
}

std::unique_ptr<Model> Session::make_part(bool training) const {
  const int stage = mesh.here().pipeline;
  const ParallelConfig& parallel = config.parallel;
  StoreOptions store{.bucket_elements = bucket_elements(config)};
  if (training) {
    store.zero = {.stage = static_cast<int>(parallel.zero),
                  .ranks = mesh.shape().shard,
                  .rank = mesh.here().data % mesh.shape().shard};
    const StepOptions steps = step_options(config, pipeline, traits());
    store.gradient_levels = GradReducer::levels(steps.reducer, store.zero.stage);
    store.leaves = GradReducer::leaves(steps.reducer.sum, mesh.shape().expert, steps.batch.blocks);
  }
  return std::make_unique<Model>(*device, what.chain, build_options(training, decode),
                                 stages.chunks(pipeline, stage, training),
                                 stages.inputs(pipeline, stage, layers), store,
                                 training ? separates_ties(config) : config.parallel.pipeline > 1);
}

std::unique_ptr<Model> Session::part_of_rows(std::int64_t rows) const {
  const int stage = mesh.here().pipeline;
  const BuildOptions options = build_options(/*training=*/false, {rows, decode.capacity});
  const auto summaries = summarize(what.chain, device->type(), options);
  return std::make_unique<Model>(*model, what.chain, options,
                                 stages.chunks(pipeline, stage, /*training=*/false),
                                 stages.inputs(pipeline, stage, summaries));
}

std::vector<PlacedParam> Session::placed_params() const {
  std::vector<PlacedParam> placed;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const ParamSpec& spec : layers[i].params) {
      if (!spec.is_copy())
        placed.push_back({spec, stages.stage_of_layer(static_cast<int>(i), pipeline)});
    }
  }
  return placed;
}

ParameterCounts parameter_counts(const std::vector<LayerSummary>& layers) {
  ParameterCounts counts;
  for (const LayerSummary& layer : layers) {
    for (const ParamSpec& spec : layer.params) {
      if (spec.is_copy() || spec.kind == ParamKind::statistic) continue;
      counts.all += spec.shape.count();
      counts.trained += spec.kind == ParamKind::weight ? spec.shape.count() : 0;
    }
  }
  return counts;
}

std::string text_of(const ParameterCounts& counts) {
  const auto short_text = [](double count) {
    std::string text = format_quantity(count);
    if (count >= 999.5) text.insert(text.size() - 1, " ");
    std::ranges::replace(text, 'G', 'B');  // of models, billions
    return text;
  };
  const auto all = static_cast<double>(counts.all), trained = static_cast<double>(counts.trained);
  std::string text = short_text(all) + " parameters";
  if (counts.trained < counts.all)
    text +=
        fmt::format(", {} ({:.2f} %) of them trained", short_text(trained), 100 * trained / all);
  return text;
}

PayloadWatchOptions watch_of_rank(const Session& session) {
  return {.rank = static_cast<std::size_t>(session.world->rank()),
          .ranks = static_cast<std::size_t>(session.world->size())};
}

LoaderOptions loader_options(const DataConfig& data, int held) {
  return {.workers = data.workers, .prefetch = data.prefetch, .held = held};
}

LoaderOptions training_loader_options(const Session& session) {
  LoaderOptions options =
      loader_options(session.config.data,
                     StepEngine::batches_held(session.pipeline, session.mesh.here().pipeline));
  if (!session.config.train.context_ramp.empty())
    options.context = context_ramp(session.config.train);
  return options;
}

ValidationPass::ValidationPass(Session& session, PipelineRunner& runner,
                               std::shared_ptr<const Dataset> own)
    : session_(session),
      runner_(runner),
      dataset_(validation_data(session, std::move(own))),
      watch_(*dataset_, watch_of_rank(session)) {
  const Config& config = session.config;
  require_same_data(*session.world, "validation data", data_text(config.data, DataPart::validation),
                    *dataset_);
  std::vector<SampleRun> runs;
  for (const auto& [name, first, size] : parts_of(*dataset_)) {
    const SampleRun run{first, samples_evaluated(config.train, size)};
    if (!name.empty()) sources_.push_back(name);
    plan_.parts.push_back(run.micro_batches(config.train.micro_batch));
    samples_ += run.samples;
    runs.push_back(run);
  }
  if (config.train.eval_overlap > 0) use_windows(runs);
  const BatchPlan plan = BatchPlan::evaluation(runs, config.train.micro_batch,
                                               sample_of(session.mesh.shape(), session.mesh.here()),
                                               session.mesh.shape().sample_ranks());
  plan_.local_batches = plan.count();
  const Dataset& source = windows_ ? *windows_ : *dataset_;
  loader_ = std::make_unique<Loader>(*session.device, source, plan, loader_options(config.data));
}

// Evaluates windows of the first part's samples, which is the only one.
void ValidationPass::use_windows(std::vector<SampleRun>& runs) {
  const Config& config = session_.config;
  const ProcessMesh& mesh = session_.mesh;
  const FieldDataset* const whole = dataset_->fields();
  if (whole == nullptr)
    fail(ExitCode::config, "train.eval_overlap: only samples of data.files have windows");
  windows_ =
      std::make_unique<SlidingWindows>(*whole, samples_, config.train.eval_overlap,
                                       config.train.micro_batch, mesh.shape().sample_ranks());
  runs = {{0, windows_->size()}};
  plan_.parts = {runs.front().micro_batches(config.train.micro_batch)};
  if (session_.model->has_head() && mesh.here().tensor == 0)
    stitcher_ = std::make_unique<Stitcher>(*windows_, *session_.device, session_.model->head(),
                                           sample_of(mesh.shape(), mesh.here()), config);
}

EvaluationResult ValidationPass::run() {
  watch_.check();
  EvaluationResult result = evaluate({.device = *session_.device,
                                      .model = *session_.model,
                                      .mesh = session_.mesh,
                                      .runner = runner_,
                                      .streams = session_.streams,
                                      .tensor = &session_.tensor,
                                      .experts = session_.experts,
                                      .context_group = session_.context_group(),
                                      .targets = traits_of(session_.config.model).targets,
                                      .sink = stitcher_.get(),
                                      .absent_counts = !session_.config.telemetry.mllog.empty()},
                                     *loader_, plan_);
  if (windows_) {
    const auto rows = stitcher_ ? stitcher_->finish() : std::vector<Stitcher::Row>{};
    return mean_of_samples(*session_.world, rows, samples_);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i)
    result.parts[i].source = sources_[i];
  return result;
}

}  // namespace trireme
