// SPDX-License-Identifier: Apache-2.0
// A campaign's state: DIRECTORY/campaign.json, written before and after each irreversible action.
// All times are seconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::campaign {

// One job. It is written as `intended` before its submission, under a unique name: a restarted
// campaign looks for that name.
struct Attempt {
  enum class Phase : std::uint8_t { intended, submitted, running, ended };

  std::int64_t number = 0;  // from 1
  std::string name{};       // "trireme-3f9a12c4-0001"
  Phase phase = Phase::intended;
  std::string job{};    // Slurm's number; empty under mpirun
  std::string place{};  // partition
  std::int64_t nodes = 0, ranks = 0;
  std::string layout{};
  std::vector<std::string> settings{};
  double predicted_step = 0;         // seconds; 0: unknown
  std::vector<std::string> hosts{};  // in rank order, once known
  double submitted = 0, started = 0, ended = 0;
  double asked_to_stop = 0;    // 0: not asked
  std::int64_t from_step = 0;  // the checkpoint it started from
  std::int64_t to_step = 0;    // the checkpoint it left
  double step_seconds = 0;     // measured; 0: no step was made
  double first_step = 0;       // time of its first step; 0: none
  int code = 0;                // exit code of the run
  std::string reason{};        // why it ended, for people

  [[nodiscard]] double node_hours(double now) const;
  // Counts steps up to the checkpoint it left.
  [[nodiscard]] double useful_node_hours() const;
};

struct Exclusion {
  std::string host{}, reason{};
  double until = 0;
};

struct CampaignState {
  enum class Outcome : std::uint8_t {
    going,
    done,
    failed,
    given_up,
    stopped,
    out_of_budget,
    past_end
  };

  std::string id{};  // eight hexadecimal digits, part of its jobs' names
  double created = 0, ended = 0;
  Outcome outcome = Outcome::going;
  std::string text{};     // the end, or what it waits for
  std::string weights{};  // hash of the final weights, as the run logs it
  std::vector<Attempt> attempts{};
  std::vector<Exclusion> excluded{};
  std::int64_t steps = 0;
  std::int64_t counted_from = 0;  // first attempt that counts for giving up; a restart moves it

  // The last attempt if it has not ended, else null.
  [[nodiscard]] Attempt* current();
  [[nodiscard]] double node_hours(double now) const;
  [[nodiscard]] double useful_node_hours() const;
  // The number of last attempts that left no newer checkpoint.
  [[nodiscard]] std::int64_t without_progress() const;
  // Hosts that are still excluded at `now`.
  [[nodiscard]] std::vector<std::string> excluded_hosts(double now) const;
  void exclude(const std::string& host, const std::string& reason, double until);
};

[[nodiscard]] std::string_view name_of(CampaignState::Outcome outcome);
[[nodiscard]] std::string_view name_of(Attempt::Phase phase);

[[nodiscard]] std::string state_file_in(const std::string& directory);
// Empty if there is no state. Raises ExitCode::config for a state of another version.
[[nodiscard]] std::optional<CampaignState> load_state(const std::string& directory);
// Atomic and durable. Raises ExitCode::internal if the disk is full.
void save_state(const std::string& directory, const CampaignState& state);

}  // namespace trireme::campaign
