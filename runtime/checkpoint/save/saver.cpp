// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/saver.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/save/save_job.h"

namespace trireme {
namespace {

// Only rank 0 touches the directory; the others learn whether it succeeded.
void prepare_directory(Communicator& group, const SaverOptions& options) {
  std::string problem;
  if (group.rank() == 0) {
    try {
      prepare_checkpoint_directory(options.directory);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  problem = first_problem(group, HostStream(), problem);
  if (!problem.empty()) fail(ExitCode::checkpoint, "{}", problem);
}

Manifest shared_parts(const ProcessMesh& mesh, std::span<const PlacedParam> placed,
                      const CheckpointValues& values) {
  Manifest manifest;
  const ParamLayout& layout = values.params.layout();
  manifest.mesh = mesh.shape();
  manifest.zero = layout.zero().stage;
  manifest.kinds = values.kinds();
  manifest.tensors = manifest_tensors(placed, layout.splits());
  return manifest;
}

}  // namespace

struct CheckpointSaver::State {
  State(Device& device, const ProcessMesh& mesh, std::span<const PlacedParam> placed,
        const CheckpointValues& values, SaverOptions given)
      : options(std::move(given)),
        group(mesh.world().host_sibling("checkpoint")),
        manifest(shared_parts(mesh, placed, values)),
        snapshot(device, mesh, values, manifest.tensors) {
    snapshot.touch();
  }

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return pending || ending; });
      if (!pending) return;
      lock.unlock();
      SaveReport done = report;
      std::exception_ptr error;
      try {
        const SaveContext context{
            *group, options, snapshot, manifest, unusable, memory ? &*memory : nullptr, best};
        (to == SaveTo::memory ? run_memory_save : run_save)(context, step, text, done);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) {
        broken = error;
      } else {
        ended = done;
        failures += done.committed() || done.in_memory ? 0 : 1;
        if (done.committed() && !done.in_memory) {
          good = done.step;
          unusable.erase(good);
        }
      }
      pending = false;
      changed.notify_all();
    }
  }

  void wait(std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [&] { return !pending; });
    if (broken) std::rethrow_exception(broken);
  }

  SaverOptions options;                       // constant from the first save on
  const std::unique_ptr<Communicator> group;  // used only by the thread once it runs
  const Manifest manifest;
  Snapshot snapshot;
  std::optional<MemoryCopies> memory;  // constant from the first save on

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool pending = false, ending = false;
  bool prepared = false;  // used by the calling thread
  SaveTo to = SaveTo::disk;
  std::int64_t step = 0;
  std::string text;
  std::int64_t best = 0, next_best = 0;  // of the running save, and of those to come
  SaveReport report;                     // of the running save
  std::optional<SaveReport> ended;       // of the last save, until taken
  std::int64_t failures = 0;
  std::int64_t good = -1;           // the last step known to be committed
  std::set<std::int64_t> unusable;  // changed only while no save is pending
  std::exception_ptr broken;
  std::thread thread;  // last: it uses all members above
};

CheckpointSaver::CheckpointSaver(Device& device, const ProcessMesh& mesh,
                                 std::span<const PlacedParam> placed, CheckpointValues values,
                                 SaverOptions options)
    : state_(std::make_unique<State>(device, mesh, placed, values, std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

void CheckpointSaver::set_epoch(std::int64_t epoch) {
  state_->options.epoch = epoch;
}

void CheckpointSaver::keep_best(std::int64_t step) {
  state_->next_best = step;
}

void CheckpointSaver::prepare() {
  State& it = *state_;
  prepare_directory(*it.group, it.options);
  if (it.options.memory)
    it.memory = prepare_memory(*it.options.memory, it.options.directory, *it.group);
  it.prepared = true;
}

CheckpointSaver::~CheckpointSaver() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->pending && std::uncaught_exceptions() > 0) {
      // The write may wait for a peer for ever. The process ends soon; until then the thread owns
      // its state.
      state_->thread.detach();
      static_cast<void>(state_.release());
      return;
    }
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void CheckpointSaver::save(Stream& stream, std::int64_t step, std::string text, SaveTo to) {
  const auto start = std::chrono::steady_clock::now();
  const auto held_ms = [start] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  State& it = *state_;
  if (!it.prepared) prepare();
  TRIREME_EXPECTS(to == SaveTo::disk || it.memory, "a saver with SaverOptions::memory");
  std::unique_lock lock(it.mutex);
  it.wait(lock);
  if (it.good == step) return;
  it.snapshot.take(stream);
  it.step = step;
  it.to = to;
  it.text = std::move(text);
  it.best = it.next_best;
  it.report = {};
  it.report.stall_ms = held_ms();
  it.pending = true;
  it.changed.notify_all();
  if (it.options.async) return;
  it.wait(lock);
  it.ended->stall_ms = held_ms();
}

bool CheckpointSaver::busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pending;
}

void CheckpointSaver::finish() {
  std::unique_lock lock(state_->mutex);
  state_->wait(lock);
}

void CheckpointSaver::forget_memory() noexcept {
  if (state_->memory) state_->memory->store.forget(state_->group->rank());
}

std::optional<SaveReport> CheckpointSaver::take_report() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->ended, std::nullopt);
}

std::int64_t CheckpointSaver::failures() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failures;
}

void CheckpointSaver::note_restored(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->good = step;
  // The newest good checkpoint was chosen; later ones were skipped.
  for (const StepDirectory& found : list_checkpoints(state_->options.directory)) {
    if (found.step > step) state_->unusable.insert(found.step);
  }
}

}  // namespace trireme
