// SPDX-License-Identifier: Apache-2.0
#include "launch/replay/replay.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "data/megatron/index.h"
#include "launch/engine/engine.h"
#include "launch/job/requested_config.h"
#include "launch/job/run_report.h"
#include "launch/replay/recorder.h"
#include "launch/replay/recordings.h"
#include "launch/replay/verify_run.h"
#include "models/config.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/environment.h"

namespace trireme {
namespace {

using Step = CertificateRecord::Step;
using Digests = std::map<std::string, std::string>;

// Result of a replay.
struct Replayed {
  std::string checkpoint;                           // its start; empty: step 0
  std::int64_t after = 0;                           // the step of that start
  std::vector<Step> steps;                          // from after + 1 on
  std::map<std::int64_t, Digests> tensors_after{};  // if the certificate has them
  std::string tensor{};                             // the first that differs in `against`
};

constexpr std::string_view restored = "restored weights";

struct Difference {
  std::int64_t step = 0;
  std::string what;  // "loss"
  std::string here, there;
  std::string tensor;  // if known
};

CertificateRecord certificate_of(const ReplayRequest& request) {
  static_cast<void>(config_file_of_run(request.run));
  const std::string path = request.run + "/" + std::string(certificate_name);
  CertificateRecord record = read_certificate(path);
  if (!record.problems.empty())
    fail(ExitCode::checkpoint, "{}; an invalid certificate proves nothing about a run",
         fmt::join(record.problems, "; "));
  const std::int64_t last = request.step + request.steps - 1;
  if (record.starts.empty() || record.steps.empty())
    fail(ExitCode::config, "{}: has no steps: the run ended before it wrote any", path);
  if (request.step < record.steps.front().step || last > record.steps.back().step)
    fail(ExitCode::config, "--step {}{}: {} has steps {} to {}", request.step,
         request.steps > 1 ? fmt::format(" --steps {}", request.steps) : std::string(), path,
         record.steps.front().step, record.steps.back().step);
  return record;
}

// The start that ran a step.
const CertificateStart& start_of_step(const CertificateRecord& record, std::int64_t step) {
  const CertificateStart* found = &record.starts.front();
  for (const CertificateStart& start : record.starts)
    if (start.after < step) found = &start;
  return *found;
}

// Whether KEY=VALUE sets the layout, of which a replay may have another.
bool is_of_layout(std::string_view setting) {
  const config::Field* const row = key_table().find(setting.substr(0, setting.find('=')));
  return row != nullptr && row->section() == "parallel" && row->effect() == config::Effect::layout;
}

Config replay_config(const RankProcess& process, const ReplayRequest& request,
                     const CertificateStart& start) {
  const std::string file = config_file_of_run(request.run);
  const int ranks = process.mpi.size();
  const Config own = load_config(file, {});
  const ParallelConfig& was = own.parallel;
  std::vector<std::string> set{
      fmt::format("run.directory={}", std::filesystem::absolute(request.run).string()),
      fmt::format("telemetry.weight_digests={}", start.weight_digests),
      "telemetry.health_minutes=0",
      "telemetry.histograms_every=0",
      "telemetry.prometheus_port=0",
      "telemetry.trace=''",
      "telemetry.mllog=",
      "telemetry.mllog_benchmark=none",
      "checkpoint.every_steps=0",
      "checkpoint.every_minutes=0",
      "checkpoint.in_memory_every_steps=0",
      "data.stage=",
      "data.validation_path=",
      "train.eval_every=0",
      "train.eval_every_samples=0",
      "train.stop_at={}",
      "run.deadline_minutes=0"};
  if (std::ranges::any_of(request.overrides, is_of_layout) || was.ranks() != ranks) {
    for (const auto& [key, value] : values_by_key(default_config()))
      if (is_of_layout(key)) set.push_back(fmt::format("{}={}", key, value));
  }
  set.insert(set.end(), request.overrides.begin(), request.overrides.end());
  Provenance where;
  Config config = load_config(file, set, &where);
  const std::string& path = config.data.path;
  if (!path.empty() && !std::filesystem::exists(path) && !find_megatron_index(path))
    fail(ExitCode::data,
         "{}: the data that {} was trained on does not exist; name its new place with --set "
         "data.path=DIRECTORY",
         path, request.run);
  return resolve_config(std::move(config), process.environment(), &where);
}

// The newest checkpoint before `step` that verifies.
std::optional<FoundCheckpoint> checkpoint_before(const std::string& run, std::int64_t step,
                                                 Communicator& world) {
  auto found = list_checkpoints(RunDirectory::checkpoints_in(run));
  std::erase_if(found, [&](const StepDirectory& one) { return one.step >= step; });
  for (; !found.empty(); found.pop_back()) {
    try {
      return open_valid(found.back().path, world);
    } catch (const Error& error) {
      if (error.code() != ExitCode::checkpoint) throw;
      if (world.rank() == 0) log::get("replay").warn("skipped: {}", error.what());
    }
  }
  return std::nullopt;
}

std::uint64_t sum_of_ranks(Communicator& world, std::uint64_t own) {
  std::uint64_t sum = 0;
  const HostStream stream;
  const auto view = [](std::uint64_t& value) {
    return Tensor{reinterpret_cast<std::byte*>(&value), DType::u64, Shape{1}};
  };
  world.all_reduce(*stream, view(own), view(sum), ReduceOp::sum);
  return sum;
}

Digests tensor_digests(Engine& engine) {
  TrainingState& state = *engine.training().state;
  Digests digests;
  if (!state.digests) return digests;
  state.engine.gatherer().finish();
  const auto all = state.digests->of_all(*engine.session().streams.compute);
  for (std::size_t i = 0; i < all.size(); ++i)
    digests.emplace(state.digests->names()[i], digest_text(all[i]));
  return digests;
}

void require_same_data(const Engine& engine, const CertificateStart& start,
                       const std::string& run) {
  const std::string data = digest_text(engine.dataset()->fingerprint());
  if (data == start.data) return;
  fail(ExitCode::data,
       "the data set has the fingerprint {}, {} was trained on {}: its steps cannot be replayed on "
       "other data; give the run's data with --set data.path=DIRECTORY",
       data, run, start.data);
}

// Empty, or with an earlier recording, which is replaced.
void make_recording_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(ExitCode::config, "--record: cannot create {}: {}", directory, error.message());
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rank_"))
      fail(ExitCode::config,
           "--record: {} holds {}, which is not a recording; give an empty directory", directory,
           name);
    fs::remove(entry.path());
  }
}

// Collective. Null without recording.
std::unique_ptr<Recorder> recorder_for(const Session& session, const ReplayRequest& request) {
  if (request.record.empty()) return nullptr;
  if (session.config.parallel.sequence && session.config.parallel.tensor > 1)
    fail(ExitCode::config,
         "--record: with parallel.sequence: true a rank has only some rows of layer outputs, which "
         "cannot be recorded; add --set parallel.sequence=false");
  if (const std::int64_t blocks = session.config.parallel.blocks(); blocks > 1)
    fail(ExitCode::config,
         "--record: with parallel.context_blocks: {} a pass has only some rows of layer outputs, "
         "which cannot be recorded; replay without --record",
         blocks);
  if (session.world->rank() == 0) {
    if (!request.against.empty())
      require_steps(read_recording(request.against), request.step,
                    request.step + request.steps - 1);
    make_recording_directory(request.record);
  }
  session.world->barrier();
  return std::make_unique<Recorder>(RecorderOptions{.directory = request.record,
                                                    .rank = session.world->rank(),
                                                    .first = request.step,
                                                    .last = request.step + request.steps - 1,
                                                    .values = request.values});
}

// Rank 0 compares; all ranks get its text.
std::string compare_with(const ReplayRequest& request, Communicator& world) {
  if (request.record.empty() || request.against.empty()) return {};
  std::string text;
  if (world.rank() == 0)
    text = compare_recordings(read_recording(request.record), read_recording(request.against));
  return broadcast_text(world, text, 0);
}

Replayed run_again(const RankProcess& process, const ReplayRequest& request, const Config& config,
                   const CertificateRecord& record) {
  Engine engine(process, config);
  Session& session = engine.session();
  const std::unique_ptr<Recorder> recorder = recorder_for(session, request);
  if (recorder) engine.observe(*recorder);
  require_same_data(engine, start_of_step(record, request.step), request.run);
  auto checkpoint = checkpoint_before(request.run, request.step, *session.world);
  Replayed replayed;
  if (checkpoint) {
    replayed.checkpoint = checkpoint->path;
    replayed.after = checkpoint->step;
  }
  engine.start_at(std::move(checkpoint));
  engine.begin();
  const auto note_tensors = [&](std::int64_t done) {
    if (record.tensors_after.contains(done)) replayed.tensors_after[done] = tensor_digests(engine);
  };
  note_tensors(replayed.after);
  const Sampler& sampler = *engine.training().sampler;
  while (engine.steps_done() < request.step + request.steps - 1) {
    const StepReport report = engine.step();
    const std::int64_t done = engine.steps_done();
    replayed.steps.push_back({.step = done,
                              .loss = exact_text(report.loss),
                              .grad_norm = exact_text(report.grad_norm),
                              .samples = digest_text(sampler.samples_digest(done - 1))});
    if (report.weight_digest)
      replayed.steps.back().weights =
          digest_text(sum_of_ranks(*session.world, *report.weight_digest));
    note_tensors(done);
  }
  engine.training().state->engine.settle();
  if (recorder) recorder->finish();
  session.world->barrier();
  replayed.tensor = compare_with(request, *session.world);
  return replayed;
}

// The first tensor whose digests differ; empty if none does.
std::string odd_tensor(const std::map<std::int64_t, Digests>& a,
                       const std::map<std::int64_t, Digests>& b, std::int64_t step) {
  const auto here = a.find(step), there = b.find(step);
  if (here == a.end() || there == b.end()) return {};
  for (const auto& [name, digest] : here->second) {
    const auto other = there->second.find(name);
    if (other == there->second.end() || other->second != digest) return name;
  }
  return {};
}

// The first difference within a step: samples, loss, gradients or weights.
std::optional<Difference> first_difference(const Replayed& replayed,
                                           const CertificateRecord& record) {
  const auto certified = [&](std::int64_t step) -> const Step& {
    return record.steps[static_cast<std::size_t>(step - record.steps.front().step)];
  };
  const std::string first =
      odd_tensor(replayed.tensors_after, record.tensors_after, replayed.after);
  if (!first.empty())
    return Difference{replayed.after, std::string(restored), replayed.checkpoint, "", first};
  const std::pair<const char*, std::string Step::*> parts[] = {
      {"samples", &Step::samples},
      {"loss", &Step::loss},
      {"gradient norm", &Step::grad_norm},
      {"digest of weights", &Step::weights}};
  for (const Step& here : replayed.steps) {
    const Step& there = certified(here.step);
    for (const auto& [what, member] : parts) {
      const bool known =
          member != &Step::weights || !(there.weights.empty() || here.weights.empty());
      if (known && here.*member != there.*member)
        return Difference{here.step, what, here.*member, there.*member,
                          odd_tensor(replayed.tensors_after, record.tensors_after, here.step)};
    }
    const std::string tensor = odd_tensor(replayed.tensors_after, record.tensors_after, here.step);
    if (!tensor.empty()) return Difference{here.step, "weights", "", "", tensor};
  }
  return std::nullopt;
}

std::string_view meaning_of(const std::string& what) {
  if (what == "samples") return "data: other samples, or another order of samples";
  if (what == "loss")
    return "in the passes or before: the batch, the initial weights of the step, an activation, a "
           "message between passes";
  if (what == "gradient norm")
    return "after the loss: a backward pass, the reduction of the gradients, the norm";
  return "after the gradient norm: the update, or the memory of the weights";
}

// Differences between here and there besides the layout.
std::string circumstances(const std::string& run, const CertificateStart& start,
                          const std::vector<std::string>& overrides) {
  std::string text;
  for (const std::string& one :
       environment_differences(environment_json({}), environment_of(run, start)))
    text += fmt::format(" {}.", one);
  for (const std::string& set : overrides)
    if (!is_of_layout(set)) text += fmt::format(" The replay was run with {}.", set);
  if (start.config != file_digest(config_file_of_run(run)))
    text += fmt::format(
        " {} has changed since the run did this step: it was edited, or a later start had other "
        "settings; give the old settings with --set KEY=VALUE.",
        config_file_of_run(run));
  if (start.binary != file_digest("/proc/self/exe"))
    text += fmt::format(" The run was made by another program: {}; this is {}.", start.program,
                        build_text());
  for (const auto& [name, version] : library_versions()) {
    const auto was = start.libraries.find(name);
    if (was != start.libraries.end() && was->second != version)
      text += fmt::format(" {} was {} and is {}.", name, was->second, version);
  }
  return text;
}

struct Comparison {
  const ReplayRequest& request;
  const CertificateStart& start;
  std::string layout;  // of the replay
  int ranks;           // of the replay
  int ranks_of_run;
  [[nodiscard]] bool same_layout() const { return layout == start.layout; }
};

// Commands that find the first differing tensor of the differing step.
std::string next_commands(std::int64_t step, const Comparison& how) {
  const bool own = how.ranks > 1 || how.same_layout();  // else one rank, for a run of several
  const int ranks = own ? how.ranks : how.ranks_of_run;
  std::string data, all;
  for (const std::string& set : how.request.overrides) {
    if (set.starts_with("data.")) data += " --set " + set;
    if (own || !is_of_layout(set)) all += " --set " + set;
  }
  const std::string replay = fmt::format("trireme replay {} --step {}", how.request.run, step);
  return fmt::format(
      "\nWhich tensor? Record the step where it is right (on one rank, or with another program or "
      "machine if these are in doubt), then where it is in doubt:\n"
      "  {}{} --record right --values\n"
      "  {}{}{} --record wrong --values --against right",
      replay, data, ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : "", replay, all);
}

std::string judgement(const Difference& difference, const Comparison& how, bool repeatable) {
  if (difference.what == restored)
    return fmt::format(
        "{} is not what the run had after step {}: {} differs, changed by memory, the disk or "
        "files of another run; move the checkpoint away, then the replay begins from an earlier "
        "one",
        difference.here, difference.step, difference.tensor);
  std::string text = fmt::format("step {}: another {}", difference.step, difference.what);
  if (!difference.here.empty())
    text += fmt::format(": {} in the replay, {} in the run", difference.here, difference.there);
  if (!difference.tensor.empty()) text += fmt::format("; first in {}", difference.tensor);
  text += fmt::format(" ({}).", meaning_of(difference.what));
  const std::string others = circumstances(how.request.run, how.start, how.request.overrides);
  text += others;
  if (!repeatable)
    return text +
           " The replay differs from itself too: this machine, or something that is not "
           "reproducible, is at fault here.";
  if (!how.same_layout())
    return text + fmt::format(
                      " The replay ran on {}, the run on {}: replay it on that layout too; if the "
                      "result is the same there, the cause is the program on that layout.",
                      how.layout, how.start.layout);
  if (!others.empty()) return text;
  return text +
         fmt::format(
             " The replay agrees with itself, and the run's program gives this result on the run's "
             "layout: the run had a temporary fault of a device, memory or link of {}.",
             fmt::join(how.start.hosts, ", "));
}

double largest_difference(const Replayed& replayed, const CertificateRecord& record,
                          std::string Step::*member) {
  double largest = 0;
  for (const Step& here : replayed.steps) {
    const auto at = static_cast<std::size_t>(here.step - record.steps.front().step);
    const double a = std::strtod((here.*member).c_str(), nullptr),
                 b = std::strtod((record.steps[at].*member).c_str(), nullptr);
    largest = std::max(largest, std::abs(a - b) / std::max(std::abs(b), 1e-30));
  }
  return largest;
}

std::string_view mode_name(const std::string& mode) {
  return std::string_view(mode).substr(0, mode.find(','));
}

ReplayReport compare_steps(const RankProcess& process, const ReplayRequest& request) {
  const CertificateRecord record = certificate_of(request);
  const CertificateStart& start = start_of_step(record, request.step);
  const Config config = replay_config(process, request, start);
  const ParallelConfig was = load_config(config_file_of_run(request.run), {}).parallel;
  const Comparison here{.request = request,
                        .start = start,
                        .layout = layout_text(config.parallel),
                        .ranks = process.mpi.size(),
                        .ranks_of_run = static_cast<int>(was.ranks())};
  const Replayed replayed = run_again(process, request, config, record);
  ReplayReport report;
  report.tensor = replayed.tensor;
  report.lines.push_back(fmt::format(
      "{:<20} {}", "began",
      replayed.checkpoint.empty() ? "at the beginning of the run" : "with " + replayed.checkpoint));
  report.lines.push_back(fmt::format("{:<20} {} (the run: {}), {}", "layout", here.layout,
                                     here.start.layout, here.start.mode));
  const std::string steps =
      fmt::format("{} to {}", replayed.after + 1, request.step + request.steps - 1);
  if (!here.same_layout() && mode_name(here.start.mode) != "layout") {
    report.lines.push_back(fmt::format(
        "{:<20} {}: loss within {:.1e}, gradient norm within {:.1e}; reproducibility: {} promises "
        "the same bits on the run's own layout only",
        "steps", steps, largest_difference(replayed, record, &Step::loss),
        largest_difference(replayed, record, &Step::grad_norm), mode_name(here.start.mode)));
    return report;
  }
  const auto difference = first_difference(replayed, record);
  if (!difference) {
    report.lines.push_back(fmt::format(
        "{:<20} {}: the bits of the run, in samples, loss, gradient norm{}", "steps", steps,
        here.start.weight_digests > 0
            ? " and weights"
            : "; the certificate has no digests of its weights (telemetry.weight_digests)"));
    return report;
  }
  ReplayRequest unrecorded = request;
  unrecorded.record.clear();
  const Replayed again = run_again(process, unrecorded, config, record);
  const bool repeatable =
      again.steps == replayed.steps && again.tensors_after == replayed.tensors_after;
  report.difference = judgement(*difference, here, repeatable);
  if (request.record.empty() && difference->what != restored)
    report.difference += next_commands(difference->step, here);
  return report;
}

}  // namespace

ReplayReport replay(const RankProcess& process, const ReplayRequest& request) {
  if (!request.against.empty() && request.record.empty())
    fail(ExitCode::config, "--against: compares recordings; add --record DIRECTORY for this one's");
  if (!request.against.empty() && std::filesystem::weakly_canonical(request.record) ==
                                      std::filesystem::weakly_canonical(request.against))
    fail(ExitCode::config,
         "--record: {} is also the recording of --against, which would be overwritten; give "
         "another directory",
         request.record);
  ReplayReport report = compare_steps(process, request);
  if (request.record.empty()) return report;
  report.lines.push_back(fmt::format("{:<20} {}", "recorded", request.record));
  if (request.against.empty()) return report;
  if (report.tensor.empty())
    report.lines.push_back(
        fmt::format("{:<20} no tensor differs from {}", "tensors", request.against));
  return report;
}

}  // namespace trireme
