// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/engine.h"

#include "data/sets/id_names.h"
#include "launch/engine/agreement/shared_inputs.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/memory_fit.h"
#include "launch/engine/options.h"
#include "launch/engine/state/data_record.h"
#include "launch/engine/state/loaded_weights.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/gather.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/checkpoint/restore/run_state.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

BatchPlan batch_plan(const Session& session, const Sampler& sampler, const StepOptions& options,
                     std::int64_t first_step) {
  return BatchPlan::training(sampler, session.config.train.micro_batch, options.batch.slices,
                             sample_of(session.mesh.shape(), session.mesh.here()), first_step);
}

void require_same_names(const Dataset& training, const Dataset& validation) {
  const IdNames wanted = training.id_names(), given = validation.id_names();
  if (!wanted.source.empty() && !given.source.empty()) require_same_ids(wanted, given);
}

// A recorded graph contains its groups' calls.
GraphMode recordable(GraphMode wanted, Session& session) {
  if (wanted == GraphMode::off || session.device->type() == DeviceType::cpu ||
      session.world->size() == 1 || can_record_collectives(*session.world, *session.device))
    return wanted;
  if (session.world->rank() == 0) {
    log::get("train").warn(
        "device.graphs: {}: steps run without graphs, because collectives cannot be recorded here",
        wanted == GraphMode::step ? "step" : "layer");
  }
  return GraphMode::off;
}

// By rank: the first rank of its host.
std::vector<int> nodes_of(Communicator& group) {
  const std::vector<std::string> hosts = gather_texts(group, host_name());
  std::vector<int> nodes;
  for (const std::string& host : hosts)
    nodes.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  return nodes;
}

// Of a program's own data. Traits of its own model may leave sizes out.
void require_layout(const Session& session, std::string_view part, const Dataset* own) {
  if (own == nullptr) return;
  const SampleLayout& given = own->layout();
  const SampleLayout wanted =
      sample_layout(session.config, session.traits(), session.mesh.here().tensor);
  const auto text_of = [](const SampleLayout& it) {
    return fmt::format("inputs {} of {} and targets {} of {}", it.inputs.to_string(),
                       name_of(it.input_dtype), it.targets.to_string(), name_of(it.target_dtype));
  };
  const bool sizes = wanted.inputs.count() == 0 || given.inputs == wanted.inputs;
  if (sizes && given.targets == wanted.targets && given.target_dtype == wanted.target_dtype &&
      (given.input_dtype == DType::i32) == (wanted.input_dtype == DType::i32))
    return;
  fail(ExitCode::config,
       "the program's own {} data: a sample has {}, but the model reads {}; change "
       "Dataset::layout(), or the model section",
       part, text_of(given), text_of(wanted));
}

}  // namespace

Config read_config(const RankProcess& process, const std::string& file,
                   const std::vector<std::string>& overrides, Purpose purpose) {
  Provenance where;
  Config given = load_config(file, overrides, &where);
  if (purpose == Purpose::train) settle_epochs(given, where, process);
  return resolve_config(std::move(given), process.environment(), &where, purpose);
}

Engine::Engine(const RankProcess& process, const Config& resolved, Purpose purpose,
               EngineParts parts)
    : Engine(open_resources(process, resolved, purpose == Purpose::train),
             purpose == Purpose::train ? with_drawn_seed(process, resolved) : resolved, purpose,
             std::move(parts)) {}

Engine::Engine(RankResources resources, const Config& resolved, Purpose purpose, EngineParts parts)
    : parts_(std::move(parts)),
      need_(purpose == Purpose::train && !resources.dry
                ? std::optional(require_fit(*resources.world, *resources.device, resolved,
                                            parts_.model ? &*parts_.model : nullptr))
                : std::nullopt),
      session_(std::move(resources), resolved, purpose == Purpose::train,
               parts_.model ? &*parts_.model : nullptr,
               purpose == Purpose::generate ? decode_shape(resolved, parts_.text_capacity)
                                            : DecodeShape{}),
      transforms_(std::move(parts_.transforms)) {
  data_opened_ = std::chrono::system_clock::now();
  if (reads_data()) {
    require_layout(session_, "training", parts_.training.get());
    require_layout(session_, "validation", parts_.validation.get());
  }
  if (purpose == Purpose::train && reads_data()) open_training_data();
}

Engine::~Engine() = default;

RunSinks RunObserver::open(const TrainingStart& start) {
  const RunDirectory directory(start.config.run.directory, start.again);
  directory.write_config(to_yaml(with_absolute_paths(start.config)));
  return {};
}

// Its ids and labels must have the meaning of the validation set's.
void Engine::open_training_data() {
  const Config& config = session_.config;
  Communicator& world = *session_.world;
  const DataConfig& data = config.data;
  if (!parts_.training && data.kind() == SourceKind::packed)
    require_data_on_all_hosts(world, "data.path", data.path);
  std::vector<std::string> validation{data.validation_path};
  for (const NamedSource& source : data.sources) {
    require_data_on_all_hosts(world, "data.sources", source.path);
    validation.push_back(source.validation_path);
  }
  std::erase(validation, "");
  if (parts_.validation) validation.clear();
  for (const std::string& path : validation)
    require_data_on_all_hosts(world, "data.validation_path", path);
  if (!parts_.training) parts_.training = open_dataset(world, config, DataPart::training);
  const Dataset& dataset = *parts_.training;
  if (data.documents == Documents::separate && !dataset.layout().documents)
    fail(ExitCode::config,
         "data.documents: separate, but the program's own data set does not provide the starts of "
         "documents (SampleLayout::documents); use joined");
  require_same_data(world, data_key(data, DataPart::training), data_text(data, DataPart::training),
                    dataset);
  const IdNames names = dataset.id_names();
  if (names.source.empty()) return;
  for (const std::string& path : validation)
    require_same_ids(names, id_names_at(path, "validation"));
}

const StartingPoint& Engine::find_start(const StartRequest& request) {
  TRIREME_EXPECTS(parts_.training != nullptr, "an engine that trains on a data set");
  // Another job that owns the run directory ends this one before it looks at anything there.
  owner_.emplace(session_.config.run.directory);
  if (session_.world->rank() == 0) owner_->take_if_there();
  start_ = ::trireme::find_start(session_, *parts_.training, request);
  return *start_;
}

void Engine::start_at(std::optional<FoundCheckpoint> checkpoint) {
  owner_.emplace(session_.config.run.directory);  // which touches nothing
  start_ = StartingPoint{.checkpoint = std::move(checkpoint)};
}

// Skipped by a resumed run, which restores its weights later.
void Engine::set_initial_weights() {
  const Config& config = session_.config;
  ParamStore& params = session_.model->params();
  Stream& stream = *session_.streams.compute;
  params.initialize(stream, config.run.seed);
  const std::string& path = config.train.initial_weights;
  if (path.empty()) return;
  const int rank = session_.world->rank();
  if (start_ && start_->checkpoint) {
    if (rank == 0)
      log::get("train").info("train.initial_weights: {} is not read: the run resumes from {}", path,
                             start_->checkpoint->path);
    return;
  }
  try {
    const RunState state = find_state(path, *session_.world);
    const RestoreReport report =
        restore_weights(state.values(ValueKind::model), state.path, *session_.device, stream,
                        session_.placed_params(), params, selection_of(config, state));
    if (rank == 0)
      log::get("train").info("weights of {}, {:.0f} MB read in {:.0f} ms", state.describe(),
                             1e-6 * static_cast<double>(report.bytes), report.milliseconds);
    require_same_meaning(config, rank == 0, *parts_.training);
  } catch (const Error& error) {
    if (error.code() != ExitCode::checkpoint) throw;
    throw Error(error.code(), fmt::format("train.initial_weights: {}", error.what()));
  }
}

void Engine::begin() {
  const Config& config = session_.config;
  StepOptions options = step_options(config, session_.pipeline, session_.traits());
  if (requests_) options.flags = [this] { return requests_->flags(); };
  rank_meter_.emplace(requests_ ? local_rank_ : -1, config);
  options.meters.push_back(&*rank_meter_);
  if (session_.experts != nullptr && !session_.dry)
    options.expert_nodes = nodes_of(session_.mesh.experts());
  for (const auto& transform : transforms_)
    options.gradients.transforms.push_back(transform.get());
  if (observer_ != nullptr) options.observers.observers.push_back(observer_);
  if (session_.dry) return begin_dry(options);
  options.graphs = recordable(options.graphs, session_);
  if (parts_.batches) {
    session_.model->params().initialize(*session_.streams.compute, config.run.seed);
    training_.state.emplace(session_, options);
    training_.batches = parts_.batches(*session_.device, config);
    return;
  }
  if (!start_) find_start();
  const Dataset& dataset = *parts_.training;
  training_.done = start_->step();
  training_.sampler.emplace(make_sampler(config, dataset));
  const BatchPlan plan = batch_plan(session_, *training_.sampler, options, steps_done());
  set_initial_weights();
  if (session_.world->rank() == 0) log_start(session_, dataset);
  training_.state.emplace(session_, options);
  log_memory(session_, training_.state->engine.optimizer());
  training_.checkpoints.emplace(session_, *training_.state, dataset, *start_, *owner_);
  if (!parts_.validation && config.data.has_validation())
    parts_.validation = open_dataset(*session_.world, config, DataPart::validation, &dataset);
  if (parts_.validation)
    training_.validation.emplace(session_, training_.state->engine.runner(), parts_.validation);
  if (training_.validation) require_same_names(dataset, training_.validation->dataset());
  staging_ = start_staging(*session_.world, config.data, data_sets());
  training_.batches =
      std::make_unique<Loader>(*session_.device, dataset, plan, training_loader_options(session_));
  if (!dataset.shards().empty()) watch_.emplace(dataset, watch_of_rank(session_));
}

RunSinks Engine::open_run(RunObserver& observer, const TrainingStart& start) {
  const Config& config = session_.config;
  const std::string& directory = config.run.directory;
  const bool first = session_.world->rank() == 0;
  RunSinks sinks;
  if (first) {
    RunDirectory::create(directory);
    owner_->take();
    remove_old_run(config, *start_);
    sinks = observer.open(start);
    keep_data_record(directory, *parts_.training);
    keep_data_index(*parts_.training, config, DataPart::training);
    if (training_.validation)
      keep_data_index(training_.validation->dataset(), config, DataPart::validation);
  }
  session_.world->barrier();
  if (!first) log::keep_in(RunDirectory::log_in(directory));
  if (writes_checkpoints(config.checkpoint))
    require_shared_run_directory(*session_.world, directory, RunDirectory::config_in(directory));
  training_.checkpoints->open(sinks.metrics);
  open_ = true;
  return sinks;
}

void Engine::require_run() const {
  if (open_ && session_.world->rank() == 0) owner_->require();
}

void Engine::note_end() {
  if (open_ && session_.world->rank() == 0) owner_->end(steps_done());
}

StepReport Engine::step() {
  StepEngine& engine = training_.state->engine;
  engine.run(steps_done(), *training_.batches);
  const StepReport report = engine.read(steps_done());
  ++training_.done;
  check();
  return report;
}

void Engine::check() {
  if (watch_) watch_->check();
  if (training_.checkpoints) training_.checkpoints->report();
}

void Engine::save() {
  TRIREME_EXPECTS(training_.checkpoints.has_value(), "training that begin() has made");
  if (!open_) {
    RunObserver nobody;
    open_run(nobody, run_start());
  }
  training_.checkpoints->save(steps_done());
}

std::vector<const Dataset*> Engine::data_sets() const {
  std::vector<const Dataset*> sets;
  if (parts_.training) sets.push_back(parts_.training.get());
  if (training_.validation) sets.push_back(&training_.validation->dataset());
  return sets;
}

void Engine::verify_data() {
  if (watch_) {
    if (const std::size_t verified = watch_->finish(); verified < watch_->shards()) {
      log::get("data").info("{} of this rank's {} shards were verified during the run", verified,
                            watch_->shards());
    }
  }
  if (training_.validation) static_cast<void>(training_.validation->watch().finish());
  for (const Dataset* const data : data_sets()) {
    if (const std::string text = data->shortcomings(); !text.empty())
      log::get("data").warn("of the data that this rank read, {}", text);
  }
}

void Engine::finish() {
  end_steps(/*finished=*/true);
  require_saved();
  note_end();
}

void Engine::end_steps(bool finished) {
  training_.state->engine.settle();
  if (finished) verify_data();
  if (!training_.checkpoints) return;
  // The last state too, so that more steps can follow. Of a run that stopped it is written.
  if (finished && writes_checkpoints(session_.config.checkpoint)) save();
  training_.checkpoints->finish();
}

void Engine::require_saved() {
  if (!training_.checkpoints) return;
  training_.checkpoints->require_saved();
  training_.checkpoints->forget_memory();
}

LoadedWeights Engine::load_weights(const std::string& run, const WeightsChoice& choice) {
  return ::trireme::load_weights(session_, run, choice);
}

void Engine::write_weights(const std::string& path) {
  const auto weights = gather_weights(session_);
  if (session_.world->rank() != 0) return;
  save_weights(path, weights,
               weights_metadata(training_.state ? std::optional(steps_done()) : std::nullopt));
}

ValidationPass& Engine::validation() {
  if (!training_.validation) {
    if (!training_.state)
      runner_.emplace(*session_.device, *session_.model, session_.mesh.pipeline(),
                      *session_.streams.compute, session_.pipeline);
    PipelineRunner& runner = runner_ ? *runner_ : training_.state->engine.runner();
    training_.validation.emplace(session_, runner, parts_.validation);
  }
  return *training_.validation;
}

EvaluationResult Engine::evaluate() {
  return validation().run();
}

TextGenerator Engine::generator(const SamplingOptions& sampling, std::int64_t forget) {
  return TextGenerator(session_, sampling, forget);
}

}  // namespace trireme
