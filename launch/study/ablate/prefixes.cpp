// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/prefixes.h"

#include <algorithm>
#include <filesystem>

#include "models/config.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/optim/lr_schedule.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::ablate {
namespace {

namespace fs = std::filesystem;

bool shapes_the_curve(const std::string& key) {
  return key.starts_with("lr_schedule.") || key == "optimizer.learning_rate" ||
         key == "train.steps" || key == "run.seed";
}

KeyValues without_curve(const Config& config) {
  KeyValues values = values_by_key(config);
  std::erase_if(values, [](const auto& one) { return shapes_the_curve(one.first); });
  return values;
}

// A variant as a sequence of steps.
class Steps {
 public:
  Steps(const Study& study, std::size_t variant)
      : fork_step_(study.fork_step),
        keys_(without_curve(study.variants[variant].config)),
        curve_(lr_schedule(study.variants[variant].config)) {}

  // In step `step`, from 1.
  [[nodiscard]] bool alike(const Steps& other, std::int64_t step) const {
    if (step <= fork_step_) return true;
    return keys_ == other.keys_ && same_rate(other, step);
  }
  // The last step up to which they stay alike, from `from` to `limit`.
  [[nodiscard]] std::int64_t alike_up_to(const Steps& other, std::int64_t from,
                                         std::int64_t limit) const {
    from = std::max(from, std::min(fork_step_, limit));
    if (keys_ != other.keys_) return from;
    while (from < limit && same_rate(other, from + 1))
      ++from;
    return from;
  }

 private:
  [[nodiscard]] bool same_rate(const Steps& other, std::int64_t step) const {
    return curve_.at(step - 1) == other.curve_.at(step - 1);
  }

  std::int64_t fork_step_;
  KeyValues keys_;
  LrSchedule curve_;
};

struct Group {
  Steps first;
  std::vector<std::size_t> members;
};

std::vector<Group> groups_of(const Study& study, std::span<const std::size_t> members,
                             std::int64_t from) {
  std::vector<Group> groups;
  for (const std::size_t member : members) {
    if (study.steps_of(member) <= from) continue;
    Steps steps(study, member);
    const auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return group.first.alike(steps, from + 1); });
    if (same == groups.end()) {
      groups.push_back({std::move(steps), {member}});
    } else {
      same->members.push_back(member);
    }
  }
  return groups;
}

fs::path checkpoint_of(const std::string& run, std::int64_t step) {
  return fs::path(RunDirectory::checkpoints_in(run)) / step_directory_name(step);
}

// Files in which a run reads, or continues, its earlier steps.
bool is_record(const std::string& name) {
  for (const char* const record :
       {"metrics.jsonl", "ranks.jsonl", "certificate.jsonl", "config.yaml", "config.user.yaml",
        "environment.json", "data.json", "start_times.json", "console.log"})
    if (name == record) return true;
  return name.starts_with("data") && name.ends_with(".index");
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to);
}

}  // namespace

std::vector<Segment> next_segments(const Study& study, std::span<const std::size_t> members,
                                   std::int64_t from, std::int64_t limit) {
  if (from < study.fork_step) limit = std::min(limit, study.fork_step);
  std::vector<Segment> segments;
  for (const Group& group : groups_of(study, members, from)) {
    std::int64_t to = limit;
    for (const std::size_t member : group.members)
      to = std::min(to, study.steps_of(member) - 1);
    for (const std::size_t member : group.members)
      to = group.first.alike_up_to(Steps(study, member), from, to);
    const bool forced = from < study.fork_step;  // by definition, however short
    const bool worth = study.share_from > 0 && to - from >= study.share_from;
    if (group.members.size() > 1 && to > from && (forced || worth)) {
      segments.push_back({.members = group.members, .from = from, .to = to});
      continue;
    }
    for (const std::size_t member : group.members)
      segments.push_back(
          {.members = {member}, .from = from, .to = std::min(limit, study.steps_of(member))});
  }
  return segments;
}

bool has_reached(const std::string& directory, std::int64_t step, bool last) {
  std::error_code error;
  if (last) return fs::exists(RunDirectory::weights_in(directory), error);
  return fs::exists(checkpoint_of(directory, step) / "manifest.json", error);
}

void fork_run(const std::string& from, const std::string& to, std::int64_t step) {
  const fs::path checkpoint = checkpoint_of(from, step);
  if (!has_reached(from, step, false))
    fail(ExitCode::checkpoint, "{}: is missing: {} cannot continue from it", checkpoint.string(),
         to);
  const fs::path half = to + ".tmp";
  try {
    fs::remove_all(half);
    const fs::path copied = checkpoint_of(half.string(), step);
    fs::create_directories(copied);
    for (const fs::directory_entry& file : fs::directory_iterator(checkpoint))
      link_or_copy(file.path(), copied / file.path().filename());
    for (const fs::directory_entry& file : fs::directory_iterator(from))
      if (file.is_regular_file() && is_record(file.path().filename().string()))
        fs::copy_file(file.path(), half / file.path().filename());
    fs::rename(half, to);
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::internal, "{}: cannot be created from {}: {}", to, from, error.what());
  }
}

}  // namespace trireme::ablate
