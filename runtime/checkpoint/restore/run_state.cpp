// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/run_state.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

enum class PlaceKind : std::uint8_t { checkpoint, checkpoints, run, weights };

// Rank 0's finding at a path.
struct Place {
  PlaceKind kind = PlaceKind::weights;
  bool weights = false, averages = false;  // of a run
  std::optional<std::int64_t> step;        // of the weights
  std::int64_t min_step = 0;               // minimum step of checkpoints
  std::string problem;
};

std::string in(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(name);
}

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Weights of older versions have no step: then the modification time decides.
std::int64_t first_step_beside_undated(const std::string& run) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const auto all = list_checkpoints(in(run, checkpoints_name));
  if (all.empty()) return none;
  std::error_code error;
  const auto written = fs::last_write_time(in(all.back().path, manifest_name), error);
  return !error && written > fs::last_write_time(in(run, weights_name)) ? 0 : none;
}

void look_at_run(const std::string& path, AtEqualSteps prefer, Place& place) {
  place.kind = PlaceKind::run;
  place.weights = exists(in(path, weights_name));
  place.averages = exists(in(path, averages_name));
  if (!place.weights) return;
  place.step = step_of_weights(in(path, weights_name));
  if (!place.step) {
    place.min_step = first_step_beside_undated(path);
  } else {
    place.min_step = prefer == AtEqualSteps::weights ? *place.step + 1 : *place.step;
  }
}

void look_at(const std::string& path, AtEqualSteps prefer, Place& place) {
  const auto has = [&](std::string_view name) { return exists(in(path, name)); };
  if (!exists(path))
    fail(ExitCode::checkpoint,
         "{}: no such file or directory; give a run, a checkpoint, a safetensors file, an index of "
         "several, or a directory of either",
         path);
  if (!fs::is_directory(path)) {
    if (path.ends_with(".safetensors")) place.step = step_of_weights(path);
  } else if (has(manifest_name)) {
    place.kind = PlaceKind::checkpoint;
  } else if (has(weights_name) || has(checkpoints_name)) {
    look_at_run(path, prefer, place);
  } else if (!has(model_name) && !has(model_index_name)) {
    place.kind = PlaceKind::checkpoints;
    if (!list_checkpoints(path).empty()) return;
    const std::string found = other_weights(path);
    fail(
        ExitCode::checkpoint, "{}: holds no checkpoint step_<8 digits>, no {} and no {}; {}", path,
        weights_name, model_name,
        found.empty() ? "the run has not saved anything yet, or this is not its directory" : found);
  }
}

Place shared_place(const std::string& path, AtEqualSteps prefer, Communicator& world) {
  Place place;
  try {
    if (world.rank() == 0) look_at(path, prefer, place);
  } catch (const Error& error) {
    place.problem = error.what();
  }
  const json mine{place.kind,     place.weights, place.averages, place.step.value_or(-1),
                  place.min_step, place.problem};
  const std::string text = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  const json told = parse_json(share_text(world, HostStream(), text));
  Place shared{told[0].get<PlaceKind>(), told[1], told[2], {}, told[4], told[5]};
  if (told[3] >= 0) shared.step = told[3].get<std::int64_t>();
  if (!shared.problem.empty()) fail(ExitCode::checkpoint, "{}", shared.problem);
  return shared;
}

RunState of_checkpoint(FoundCheckpoint found) {
  RunState state{found.path, found.step, {}, {}};
  state.checkpoint = std::move(found);
  return state;
}

}  // namespace

std::optional<std::int64_t> step_of_weights(const std::string& path) {
  const SafetensorsFile file(path);
  const auto found = file.metadata().find("step");
  if (found == file.metadata().end()) return {};
  const std::string& text = found->second;
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool whole = error == std::errc() && end == text.data() + text.size() && step >= 0;
  if (!whole)
    fail(ExitCode::checkpoint, "{}: its metadata's step is '{}', not a number", path, text);
  return step;
}

bool RunState::has(ValueKind kind) const {
  if (checkpoint) return checkpoint->manifest.has(kind);
  return kind == ValueKind::model || (kind == ValueKind::average && !average_path.empty());
}

StoredValues RunState::values(ValueKind kind) const {
  if (!has(kind)) {
    fail(ExitCode::config,
         "{}: holds no {} values; a run with train.ema_decay above 0 writes averages to its "
         "checkpoints and, as {}, beside its weights: name such a run, a checkpoint of it, or that "
         "file",
         path, name_of(kind), averages_name);
  }
  if (checkpoint) return stored_values(path, checkpoint->manifest, kind);
  return stored_weights(kind == ValueKind::average ? average_path : path);
}

std::string RunState::describe(ValueKind kind) const {
  const bool average = kind == ValueKind::average;
  std::string text = average && !average_path.empty() ? average_path : path;
  if (step) text += fmt::format(" (step {}", *step);
  if (average && checkpoint) text += step ? ", averages" : " (averages";
  if (step || (average && checkpoint)) text += ")";
  return text;
}

RunState find_state(const std::string& path, Communicator& world, AtEqualSteps prefer) {
  const Place place = shared_place(path, prefer, world);
  if (place.kind == PlaceKind::checkpoint) return of_checkpoint(open_valid(path, world));
  if (place.kind == PlaceKind::weights) {
    require_same_weights(world, path);
    return {path, place.step, {}, {}};
  }
  const bool run = place.kind == PlaceKind::run;
  auto newest = find_newest_valid(run ? in(path, checkpoints_name) : path, world, place.min_step);
  if (newest) return of_checkpoint(std::move(*newest));
  if (!place.weights)
    fail(ExitCode::checkpoint,
         "{}: holds neither weights nor a checkpoint that verifies; see trireme checkpoint inspect "
         "--verify {}",
         path, path);
  require_same_weights(world, in(path, weights_name));
  if (place.averages) require_same_weights(world, in(path, averages_name));
  return {in(path, weights_name), place.step, {}, place.averages ? in(path, averages_name) : ""};
}

}  // namespace trireme
