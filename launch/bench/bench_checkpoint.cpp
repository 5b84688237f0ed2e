// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/bench/checkpoint/checkpoint_rates.h"
#include "launch/bench/machine_check.h"
#include "launch/bench/model/measure.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/engine.h"
#include "launch/study/statistics.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/comm/watchdog/watched.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct CheckpointBenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string directory;
  std::int64_t megabytes = 256;
  int rounds = 5;
  std::string json;
};

// A new directory below the user's, removed before and after.
class Scratch {
 public:
  Scratch(Communicator& world, const std::string& directory)
      : world_(world), path_(directory + "/trireme_bench_checkpoint") {
    std::string problem;
    if (world.rank() == 0) {
      std::error_code error;
      fs::remove_all(path_, error);
      if (!error) fs::create_directories(path_, error);
      if (error) problem = error.message();
    }
    problem = gather_texts(world, problem).front();
    if (!problem.empty())
      library_failed(fmt::format("mkdir({})", path_), problem, ExitCode::config);
  }
  ~Scratch() {
    std::error_code ignored;
    if (world_.rank() == 0) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Communicator& world_;
  std::string path_;
};

struct CheckpointFigures {
  int ranks = 1;
  CheckpointRates rates;
  std::optional<StepStall> stall{};
};

// A line of the table; `beside`: the reference.
struct Line {
  const char* key;
  const char* name;
  const std::vector<double>& seconds;
  const std::vector<double>* beside = nullptr;
};

std::vector<Line> lines_of(const CheckpointRates& r) {
  return {{"plain_write", "plain write and fsync", r.plain_write},
          {"save", "save", r.save, &r.plain_write},
          {"plain_read_cold", "plain read, cold", r.plain_read_cold},
          {"verify_cold", "verify, cold", r.verify_cold, &r.plain_read_cold},
          {"restore_cold", "restore, cold", r.restore_cold, &r.plain_read_cold},
          {"resume_cold", "verify and restore, cold", r.resume_cold, &r.plain_read_cold},
          {"plain_read_warm", "plain read, warm", r.plain_read_warm},
          {"verify_warm", "verify, warm", r.verify_warm, &r.plain_read_warm},
          {"restore_warm", "restore, warm", r.restore_warm, &r.plain_read_warm}};
}

void print(const CheckpointFigures& measured, int rounds) {
  const CheckpointRates& rates = measured.rates;
  const auto megabytes = 1e-6 * static_cast<double>(rates.bytes);
  fmt::print("{} ranks, {:.0f} MB in all; medians of {} rounds\n", measured.ranks, megabytes,
             rounds);
  for (const Line& line : lines_of(rates)) {
    if (line.seconds.empty()) {
      fmt::print("{:<26} the page cache cannot be emptied here\n", line.name);
      continue;
    }
    const double seconds = studies::median_of(line.seconds);
    const std::string ratio =
        line.beside == nullptr
            ? ""
            : fmt::format("  {:4.0f} % of plain", 100 * studies::median_of(*line.beside) / seconds);
    fmt::print("{:<26} {:7.0f} MB/s  {:8.1f} ms{}\n", line.name, megabytes / seconds, 1e3 * seconds,
               ratio);
  }
  fmt::print("{:<26} {:7.0f} MB/s  {:8.1f} ms\n", "copy to host memory",
             megabytes / studies::median_of(rates.copy), 1e3 * studies::median_of(rates.copy));
  // Memory pressure evicts files again.
  constexpr double warm = 0.99;
  if (const double held = studies::median_of(rates.warm_share); held < warm) {
    fmt::print("the page cache held only {:.0f} % of the files when they should have been warm\n",
               100 * held);
  }
  if (!measured.stall) return;
  fmt::print("{}", stall_text(*measured.stall));
}

void write_json(const std::string& path, const CheckpointFigures& measured) {
  nlohmann::ordered_json json{{"ranks", measured.ranks}, {"bytes", measured.rates.bytes}};
  for (const Line& line : lines_of(measured.rates))
    json["seconds"][line.key] = line.seconds;
  json["seconds"]["copy"] = measured.rates.copy;
  json["warm_share"] = measured.rates.warm_share;
  if (measured.stall) {
    const StepStall& stall = *measured.stall;
    json["stall"] = {{"steps", stall.steps},
                     {"step_ms", stall.plain},
                     {"longer_ms", stall.longer},
                     {"copy_ms", stall.copy},
                     {"held_ms", stall.held}};
  }
  write_file(path, json.dump(2) + "\n", ExitCode::config);
}

SaverOptions saver_options(const Scratch& scratch) {
  return {.directory = scratch.path() + "/checkpoints", .keep = 1};
}

std::unique_ptr<Communicator> watched_world(const RankProcess& process) {
  return make_watched(process.mpi.world(),
                      {.deadline_seconds = ParallelConfig{}.timeout_seconds, .directory = {}});
}

// Weights and both moments of AdamW, sharded as with ZeRO.
CheckpointFigures measure_size(const RankProcess& process,
                               const CheckpointBenchArguments& arguments) {
  constexpr std::int64_t tensors = 16, width = 1024, bytes_per_weight = 12;
  const auto device = Device::create(DeviceType::cpu);
  const auto stream = device->make_stream(StreamKind::compute);
  const auto world = watched_world(process);
  const Scratch scratch(*world, arguments.directory);
  const ProcessMesh mesh(*world, {.data = world->size(), .shard = world->size()});
  ParamStore params;
  std::vector<PlacedParam> placed;
  const std::int64_t rows = std::max<std::int64_t>(
      1, arguments.megabytes * 1'000'000 / (bytes_per_weight * width * tensors));
  for (std::int64_t i = 0; i < tensors; ++i) {
    placed.push_back({{.name = fmt::format("weight_{}", i), .shape = {rows, width}}, 0});
    params.declare(placed.back().spec);
  }
  params.allocate(*device, {.zero = {.stage = 1, .ranks = world->size(), .rank = world->rank()}});
  params.initialize(*stream, 1);
  const Shape owned{params.layout().owned_elements()};
  const auto moments = [&] {
    Buffer buffer(*device, static_cast<std::size_t>(owned.count()) * sizeof(float),
                  MemoryKind::device);
    device->fill_zero(*stream, buffer.data(), buffer.bytes());
    return buffer;
  };
  const Buffer first = moments(), second = moments();
  const SavedState state{*device,
                         *stream,
                         mesh,
                         placed,
                         {.params = params,
                          .first = first.view(DType::f32, owned),
                          .second = second.view(DType::f32, owned)}};
  CheckpointSaver saver(*device, mesh, placed, state.values, saver_options(scratch));
  return {.ranks = world->size(),
          .rates = measure_checkpoints(state, saver, scratch.path(), arguments.rounds)};
}

// The model, optimizer and layout of a config; also times training steps.
CheckpointFigures measure_config(const RankProcess& process,
                                 const CheckpointBenchArguments& arguments) {
  const Config config = read_config(process, arguments.config, arguments.overrides);
  Engine engine(process, config, Purpose::train, {.batches = model_bench::synthetic_batches});
  Session& session = engine.session();
  const Scratch scratch(*session.world, arguments.directory);
  engine.begin();
  TrainingState& training = *engine.training().state;
  const SavedState state{*session.device, *session.streams.compute, session.mesh,
                         session.placed_params(), training.checkpoint_values()};
  CheckpointSaver saver(state.device, state.mesh, state.placed, state.values,
                        saver_options(scratch));
  CheckpointFigures measured{
      .ranks = session.world->size(),
      .rates = measure_checkpoints(state, saver, scratch.path(), arguments.rounds)};
  measured.stall = measure_stall(session, training.engine, *engine.training().batches, saver,
                                 studies::median_of(measured.rates.save), arguments.rounds);
  training.engine.settle();
  return measured;
}

void bench_checkpoint(const CheckpointBenchArguments& arguments) {
  const RankProcess process;
  const MachineCheck machine(false);
  const CheckpointFigures measured = arguments.config.empty() ? measure_size(process, arguments)
                                                              : measure_config(process, arguments);
  static_cast<void>(machine.finish(*watched_world(process), ""));
  if (process.mpi.rank() != 0) return;
  print(measured, arguments.rounds);
  if (!arguments.json.empty()) write_json(arguments.json, measured);
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench_app) {
  auto* const command = bench_app.add_subcommand(
      "checkpoint",
      "Saving, verifying and restoring beside plain writes and reads of the same disk");
  const auto arguments = std::make_shared<CheckpointBenchArguments>();
  add_config_options(*command, arguments->config, arguments->overrides,
                     "Measure the state of this config's model, and what saves cost its steps");
  command->add_option("--directory", arguments->directory, "On the disk to measure")->required();
  add_value(*command, "--megabytes", arguments->megabytes, "Without a config: size of the state",
            integer_between(1, 10'000'000));
  add_value(*command, "--rounds", arguments->rounds, "Rounds, whose medians are printed",
            integer_between(1, 1000));
  command->add_option("--json", arguments->json, "Also write every round's figures to this file");
  command->footer(
      "Example: mpirun -np 2 trireme bench checkpoint configs/gpt_tiny.yaml --directory /scratch");
  command->callback([arguments] { bench_checkpoint(*arguments); });
}

}  // namespace trireme
