// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/starting_point.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "launch/engine/state/data_record.h"
#include "models/config.h"
#include "runtime/base/environment.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "runtime/checkpoint/memory/memory_store.h"
#include "runtime/checkpoint/restore/run_state.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/config/key_table.h"
#include "runtime/config/value.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* instead =
    "choose another run.directory, or start from scratch in this one with --overwrite";

std::string digits_of(std::uint64_t fingerprint) {
  return fmt::format("{:016x}", fingerprint);
}

config::Effect effect_of(const std::string& key) {
  const config::Field* const row = key_table().find(key);
  TRIREME_EXPECTS(row != nullptr, "{} is no key", key);
  return row->effect();
}

bool changes_results(const std::string& key) {
  return effect_of(key) < config::Effect::rounding;
}

// data.sources without the keys that are free for data.path alone: places, names and reading
// options. The fingerprint compares the content.
std::vector<std::string> without_places(const std::string& sources) {
  Config config = parse_config("data:\n  sources: " + sources + "\n", "data.sources", {});
  std::vector<std::string> values;
  for (const NamedSource& source : config.data.sources) {
    static_cast<DataSource&>(config.data) = source;
    for (const config::Field& row : config::source_fields()) {
      if (changes_results(row.key)) values.push_back(config::format_value(row, config));
    }
  }
  return values;
}

bool changes_results(const std::string& key, const std::string& was, const std::string& value) {
  if (key != "data.sources") return changes_results(key);
  try {
    return without_places(was) != without_places(value);
  } catch (const Error&) {  // keys of another version
    return true;
  }
}

void compare_configs(const FoundCheckpoint& found, const json& before, const Config& config) {
  KeyValues stored;
  for (const auto& [key, value] : before.items())
    stored.emplace_back(key, value.get<std::string>());
  stored = under_current_keys(stored);
  const std::map<std::string, std::string> earlier(stored.begin(), stored.end());
  std::string differences, free_differences, rounding;
  const bool by_layout = config.reproducibility != Reproducibility::layout;
  for (const auto& [key, value] : values_by_key(with_absolute_paths(config))) {
    const auto found_before = earlier.find(key);
    if (found_before == earlier.end() || found_before->second == value || key == "run.directory")
      continue;
    const std::string& was = found_before->second;
    const config::Effect effect = effect_of(key);
    if (effect == config::Effect::samples || effect == config::Effect::state) {
      fail(ExitCode::config, "{}: is {}, but was {} when {} was written; set it back, {}", key,
           value, was, found.path, instead);
    }
    const bool rounds =
        effect == config::Effect::rounding || (effect == config::Effect::layout && by_layout);
    std::string& list = changes_results(key, was, value) ? differences
                        : rounds                         ? rounding
                                                         : free_differences;
    list += fmt::format("{} {}: {} (was {})", list.empty() ? "" : ";", key, value, was);
  }
  if (!free_differences.empty())
    log::get("checkpoint")
        .info(
            "going on with other settings than before, which do not change "
            "what is computed:{}",
            free_differences);
  if (!rounding.empty())
    log::get("checkpoint")
        .info(
            "going on with other settings than before, which change the order of additions, and so "
            "the last bits of what is computed{}:{}",
            by_layout ? fmt::format(" (reproducibility: {}; layout keeps them)",
                                    name_of(config.reproducibility))
                      : "",
            rounding);
  if (!differences.empty())
    log::get("checkpoint").warn("going on with other settings than before:{}", differences);
}

void check_data(const FoundCheckpoint& found, const json& before, const Dataset& dataset) {
  const std::string was = before.at("fingerprint").get<std::string>();
  if (was == digits_of(dataset.fingerprint())) {
    const std::string touched = dataset.touched();
    if (touched.empty()) return;
    fail(
        ExitCode::data,
        "the data set: {} written to since this run last looked, with the same size: it may now "
        "hold other numbers than those the run began with. Restore the old files with their mtime; "
        "if the numbers are the same, remove the data*.index files of the run directory; or {}",
        touched, instead);
  }
  fail(ExitCode::config,
       "the data set: its fingerprint is {} ({} samples), but {} was written with data of {} ({} "
       "samples), so the order of samples cannot continue; use the same data, mixed in the same "
       "way, {}",
       digits_of(dataset.fingerprint()), dataset.size(), found.path, was,
       before.at("samples").get<std::int64_t>(), instead);
}

std::optional<FoundCheckpoint> checkpoint_that_fits(Session& session, const Dataset& dataset) {
  const Config& config = session.config;
  const std::string directory = RunDirectory::checkpoints_in(config.run.directory);
  auto found = find_newest_valid(directory, *session.world);
  if (!found) {
    fail(ExitCode::checkpoint,
         "{}: none of its checkpoints verifies; see trireme checkpoint inspect --verify {}, {}",
         directory, config.run.directory, instead);
  }
  try {
    const json state = parse_json<json>(found->manifest.state);
    require_ids_of_run(config.run.directory, dataset);
    check_data(*found, state.at("data"), dataset);
    compare_configs(*found, state.at("config"), config);
  } catch (const json::exception& error) {
    fail(ExitCode::checkpoint, "{}: the state in its manifest is not from a training run: {}",
         found->path, error.what());
  }
  return found;
}

// Differences between the directory's config.yaml and this config in keys that make another run; ""
// for none.
std::string differences_from_stored(const Config& config) {
  try {
    const Config stored = load_config(RunDirectory::config_in(config.run.directory), {});
    const auto before = values_by_key(with_absolute_paths(stored));
    const auto now = values_by_key(with_absolute_paths(config));
    std::string differences;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto& [key, value] = now[i];
      const bool of_data = key == "data.path" || key == "data.files" || key == "data.images";
      if (!(of_data || changes_results(key)) || key == "train.steps" || value == before[i].second)
        continue;
      differences += fmt::format("{}{}: {} (was {})", differences.empty() ? "" : "; ", key, value,
                                 before[i].second);
    }
    return differences;
  } catch (const Error& error) {
    return error.what();
  }
}

// A restart by Slurm or by launch/supervise.sh.
bool is_restart() {
  constexpr std::int64_t most = 1'000'000'000;
  const auto happened = [](const char* name) {
    return environment_number(name, 0, most).value_or(0) > 0;
  };
  return happened("SLURM_RESTART_COUNT") || happened("TRIREME_EARLIER_STARTS");
}

// Rank 0's findings.
struct HeldState {
  bool run = false, trained = false, checkpoints = false, weights = false, averages = false;
  bool overwrite = false;
  std::int64_t step = -1;   // of the weights
  std::string reached;      // of the weights: stored_text()
  std::string differences;  // where only weights are left
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldState, run, trained, checkpoints, weights, averages,
                                   overwrite, step, reached, differences)

// Step -1: not known, as of an older version's weights.
void look_at_weights(const std::string& path, HeldState& held) {
  try {
    held.step = step_of_weights(path).value_or(-1);
    const SafetensorsFile file(path);
    if (const auto found = file.metadata().find("reached"); found != file.metadata().end())
      held.reached = found->second;
  } catch (const Error& error) {
    log::get("train").warn("{}", error.what());
  }
}

HeldState look(const Config& config, const StartRequest& request) {
  const std::string& directory = config.run.directory;
  const RunDirectory::Contents contents = RunDirectory::contents(directory);
  HeldState held;
  held.run = contents.run;
  held.trained = contents.trained;
  held.weights = contents.weights;
  held.averages = contents.averages;
  held.checkpoints = !list_checkpoints(RunDirectory::checkpoints_in(directory)).empty();
  held.overwrite = request.overwrite && !is_restart();
  if (request.overwrite && !held.overwrite && contents.run)
    log::get("train").info("restarted: --overwrite was already applied, the run resumes");
  if (held.overwrite || !held.weights) return held;
  look_at_weights(RunDirectory::weights_in(directory), held);
  if (!held.checkpoints) held.differences = differences_from_stored(config);
  return held;
}

HeldState shared_look(Session& session, const StartRequest& request) {
  HeldState held;
  if (session.world->rank() == 0) held = look(session.config, request);
  const nlohmann::json found = held;
  const std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
  return parse_json(broadcast_text(*session.world, text, 0)).get<HeldState>();
}

// On rank 0.
std::uint64_t seed_of_run(const std::string& directory, const StartRequest& request) {
  const std::string file = RunDirectory::config_in(directory);
  std::error_code ignored;
  const bool replaced = request.overwrite && !is_restart();
  if (!replaced && std::filesystem::exists(file, ignored)) return load_config(file, {}).run.seed;
  std::random_device random;
  return (std::uint64_t{random()} << 16U ^ random()) | 1U;  // 48 bits: exact in all JSON, not 0
}

// What passed train.stop_at or train.patience, if it still does.
std::optional<ReachedTarget> passed(const std::optional<ReachedTarget>& reached,
                                    const Config& config) {
  const std::int64_t patience = config.train.patience;
  if (reached && reached->is_patience())
    return patience > 0 && reached->value >= static_cast<double>(patience) ? reached : std::nullopt;
  return reached && reached->passes(config.train.stop_at) ? reached : std::nullopt;
}

// Weights alone are an end: there is nothing to go on from.
void require_finished(const HeldState& held, const Config& config) {
  const std::string& directory = config.run.directory;
  const bool done = held.step >= config.train.steps || passed(reached_target(held.reached), config);
  if (held.trained && done && held.differences.empty()) return;
  const std::string weights = RunDirectory::weights_in(directory);
  const std::string train_on = fmt::format(
      "to train from them set train.initial_weights: {} and another run.directory", weights);
  if (!held.trained) {
    fail(ExitCode::config,
         "run.directory: {}: holds weights of another program, for example from `trireme "
         "checkpoint import`; {}",
         directory, train_on);
  }
  if (held.step < 0 || !held.differences.empty()) {
    fail(
        ExitCode::config,
        "run.directory: {}: already holds the weights of a run with other settings ({}); {}; or {}",
        directory,
        held.differences.empty() ? "its weights do not say after how many steps they were written"
                                 : held.differences,
        train_on, instead);
  }
  fail(ExitCode::config,
       "train.steps: {}: run.directory {} holds weights after {} steps, but no checkpoint to go on "
       "from (checkpoint.every_steps); {}; or {}",
       config.train.steps, directory, held.step, train_on, instead);
}

}  // namespace

Config with_drawn_seed(const RankProcess& process, Config config, const StartRequest& request) {
  if (!config.run.seed.from_clock) return config;
  const auto world = process.mpi.world();
  const auto seeds = gather_or_raise(*world, [&] {
    return world->rank() == 0 ? fmt::format("{}", seed_of_run(config.run.directory, request)) : "";
  });
  config.run.seed = std::stoull(seeds.front());
  return config;
}

StartingPoint find_start(Session& session, const Dataset& dataset, const StartRequest& request) {
  const Config& config = session.config;
  RunDirectory::refuse_a_file(config.run.directory);
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.in_memory_every_steps > 0 && !request.fresh &&
      !(request.overwrite && !is_restart())) {
    recover_from_memory({checkpoint.memory_directory},
                        RunDirectory::checkpoints_in(config.run.directory), *session.world);
  }
  const HeldState held = shared_look(session, request);
  const bool state = held.checkpoints || held.weights;
  if (request.fresh && (held.run || state)) {
    fail(ExitCode::config,
         "run.directory: {}: already holds a run, which --fresh does not overwrite; {}",
         config.run.directory, instead);
  }
  StartingPoint start{.again = held.run || state};
  start.overwrite = held.overwrite && start.again;
  if (start.overwrite) return start;
  if (held.checkpoints) start.checkpoint = checkpoint_that_fits(session, dataset);
  if (held.weights && !held.checkpoints) require_finished(held, config);
  if (held.weights && held.step > start.step()) start.finished = held.step;
  if (start.checkpoint) start.reached = passed(reached_in(*start.checkpoint), config);
  const bool checkpoint_is_end =
      start.checkpoint && (start.step() >= config.train.steps || start.reached);
  if (start.finished > 0) start.reached = passed(reached_target(held.reached), config);
  // Weights of older versions have no step, and stay.
  const bool older = held.weights && held.step >= 0 && held.step < start.step();
  // A disk may have had no room for the averages, which are written last.
  const bool lacks_averages =
      start.checkpoint && start.checkpoint->manifest.has(ValueKind::average) && !held.averages;
  start.lacks_weights = checkpoint_is_end &&
                        (!held.weights || older || (lacks_averages && held.step == start.step()));
  if (start.checkpoint && start.finished > 0 && !start.done(config.train.steps) &&
      session.world->rank() == 0) {
    log::get("train").warn(
        "the run has ended after {} steps, but its newest checkpoint is of step {}: steps {} to {} "
        "are trained again, and its weights are kept as {}",
        start.finished, start.step(), start.step() + 1, start.finished,
        RunDirectory::set_aside_name(start.finished));
  }
  return start;
}

void remove_old_run(const Config& config, const StartingPoint& start) {
  const std::string& directory = config.run.directory;
  if (start.overwrite) {
    RunDirectory::remove_run(directory);
    log::get("train").info("{}: removed the run in it (--overwrite)", directory);
  } else if (start.finished > 0) {
    RunDirectory::set_weights_aside(directory, start.finished);
  }
}

std::string state_text(const Config& config, const Dataset& dataset, std::int64_t epoch,
                       const std::optional<ReachedTarget>& reached, const BestEvaluation& best) {
  json values = json::object();
  for (const auto& [key, value] : values_by_key(with_absolute_paths(config)))
    values[key] = value;
  json state = {
      {"version", version_text()},
      {"epoch", epoch},
      {"data", {{"samples", dataset.size()}, {"fingerprint", digits_of(dataset.fingerprint())}}},
      {"config", std::move(values)}};
  if (reached) state["reached"] = stored_text(reached);
  if (!best.metric.empty()) state["best"] = stored_text(best);
  return state.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ReachedTarget> reached_in(const FoundCheckpoint& checkpoint) {
  return reached_target(parse_json<json>(checkpoint.manifest.state).value("reached", ""));
}

}  // namespace trireme
