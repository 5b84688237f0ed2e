// SPDX-License-Identifier: Apache-2.0
// What a campaign remembers: DIRECTORY/campaign.json, written before and after everything that
// cannot be undone. All times are seconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::campaign {

// One job. It is written as `intended` before it is submitted, under a name that no other job ever
// has: a campaign that was killed in between looks for that name.
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
  double predicted_step = 0;         // seconds; 0: not known
  std::vector<std::string> hosts{};  // in the order of ranks, once they are known
  double submitted = 0, started = 0, ended = 0;
  double asked_to_stop = 0;    // 0: not
  std::int64_t from_step = 0;  // of the checkpoint that it went on from
  std::int64_t to_step = 0;    // of what it left
  double step_seconds = 0;     // measured; 0: it made no step
  double first_step = 0;       // when its first step had been made; 0: never
  int code = 0;                // exit code of the run
  std::string reason{};        // why it ended, for people

  [[nodiscard]] double node_hours(double now) const;
  // Of the steps that count: those up to what it left.
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

  std::string id{};  // eight hexadecimal digits, of the names of its jobs
  double created = 0, ended = 0;
  Outcome outcome = Outcome::going;
  std::string text{};     // of the end, or what it waits for
  std::string weights{};  // what the run says of its final weights
  std::vector<Attempt> attempts{};
  std::vector<Exclusion> excluded{};
  std::int64_t steps = 0;
  std::int64_t counted_from = 0;  // attempts before it count for no giving up: that was overruled

  // The last one, while it has not ended.
  [[nodiscard]] Attempt* current();
  [[nodiscard]] double node_hours(double now) const;
  [[nodiscard]] double useful_node_hours() const;
  // Attempts at the end of the list that left no newer checkpoint than they found.
  [[nodiscard]] std::int64_t without_progress() const;
  // The names of hosts whose time has not run out.
  [[nodiscard]] std::vector<std::string> excluded_hosts(double now) const;
  void exclude(const std::string& host, const std::string& reason, double until);
};

[[nodiscard]] std::string_view name_of(CampaignState::Outcome outcome);
[[nodiscard]] std::string_view name_of(Attempt::Phase phase);

[[nodiscard]] std::string state_file_in(const std::string& directory);
// Nothing where there is none. Raises ExitCode::config where it is no state of this version.
[[nodiscard]] std::optional<CampaignState> load_state(const std::string& directory);
// Atomic and durable. Raises ExitCode::internal where the disk is full.
void save_state(const std::string& directory, const CampaignState& state);

}  // namespace trireme::campaign
