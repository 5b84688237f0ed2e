// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/cluster/job_end.h"

#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <sstream>

#include "launch/campaign/cluster/slurm_text.h"
#include "runtime/base/error.h"

namespace trireme::campaign {
namespace {

class Search {
 public:
  Search(const std::vector<std::string>& hosts, std::int64_t ranks_per_node)
      : hosts_(hosts), ranks_per_node_(ranks_per_node) {}

  void read(const std::string& line) {
    static const std::regex ended(R"(\[rank ([0-9]+)(/[0-9]+)? ([^\]]*)\] error: (ended by .*))");
    static const std::regex silent(R"(rank ([0-9]+).* does not answer)");
    std::smatch found;
    if (std::regex_search(line, found, ended)) {
      // srun may name a host by an alias.
      const std::string named = found[3];
      if (std::ranges::find(hosts_, named) != hosts_.end())
        add(named, "rank " + found[1].str() + " " + found[4].str());
      else
        add_rank(number(found[1]), "rank " + found[1].str() + " " + found[4].str());
    } else if (std::regex_search(line, found, silent)) {
      add_rank(number(found[1]), "rank " + found[1].str() + " did not answer");
    } else if (line.starts_with("PROBLEM ")) {
      problem(line);
    }
  }

  [[nodiscard]] std::vector<Blame> take() { return std::move(blamed_); }

 private:
  [[nodiscard]] static std::int64_t number(const std::string& digits) {
    return digits.size() > 9 ? -1 : std::stoll(digits);
  }

  void add(const std::string& host, const std::string& reason) {
    if (std::ranges::find(blamed_, host, &Blame::host) == blamed_.end())
      blamed_.push_back({host, reason});
  }
  void add_rank(std::int64_t rank, const std::string& reason) {
    const auto node = rank / ranks_per_node_;
    if (rank >= 0 && node < static_cast<std::int64_t>(hosts_.size()))
      add(hosts_[static_cast<std::size_t>(node)], reason);
  }

  // "PROBLEM  memory         text of n2  [ranks 2-3, 6]"
  void problem(const std::string& line) {
    static const std::regex ranks(R"(\[ranks? ([0-9, -]+)\])"), range(R"(([0-9]+)(-([0-9]+))?)");
    const std::string reason = "health check: " + line.substr(8).substr(0, 160);
    std::set<std::string> named;
    for (const std::string& host : hosts_) {
      const std::regex word("(^|[^A-Za-z0-9.-])" + escaped(host) + "($|[^A-Za-z0-9-])");
      if (std::regex_search(line, word)) named.insert(host);
    }
    std::smatch found;
    if (std::regex_search(line, found, ranks)) {
      const std::string list = found[1];
      for (std::sregex_iterator part(list.begin(), list.end(), range), end; part != end; ++part) {
        const std::int64_t first = number((*part)[1]);
        const std::int64_t last = (*part)[3].matched ? number((*part)[3]) : first;
        for (std::int64_t rank = first; rank >= 0 && rank <= last; ++rank) {
          const auto node = static_cast<std::size_t>(rank / ranks_per_node_);
          if (node >= hosts_.size()) break;
          named.insert(hosts_[node]);
        }
      }
    }
    // A problem on all hosts is no host's fault.
    if (named.size() == hosts_.size() && hosts_.size() > 1) return;
    for (const std::string& host : named)
      add(host, reason);
  }

  [[nodiscard]] static std::string escaped(const std::string& text) {
    std::string safe;
    for (const char letter : text) {
      if (std::string_view(".+*?()[]{}|^$\\").find(letter) != std::string_view::npos) safe += '\\';
      safe += letter;
    }
    return safe;
  }

  const std::vector<std::string>& hosts_;
  std::int64_t ranks_per_node_;
  std::vector<Blame> blamed_;
};

struct LastWords {
  std::string error{}, line{};
};
LastWords last_words(std::string_view log) {
  std::istringstream lines{std::string(log)};
  LastWords last;
  bool goes_on = false;  // inside indented lines
  for (std::string line; std::getline(lines, line);) {
    // Skips the frames of Open MPI's messages and the run's own log lines.
    if (line.find_first_not_of(" \t\r-") == std::string::npos) continue;
    if (line.find("] [info] [") == std::string::npos) last.line = line.substr(0, 300);
    goes_on = goes_on && line.starts_with("  ");
    if (goes_on) last.error += (last.error.ends_with(':') ? "" : ";") + line.substr(1);
    if (const auto at = line.find("error: "); at != std::string::npos) {
      last.error = line.substr(at + 7);
      goes_on = true;
    }
  }
  last.error.resize(std::min<std::size_t>(last.error.size(), 300));
  return last;
}

}  // namespace

std::vector<Blame> blamed_hosts(std::string_view log, const std::vector<std::string>& hosts,
                                std::int64_t ranks_per_node) {
  Search search(hosts, ranks_per_node);
  std::istringstream lines{std::string(log)};
  for (std::string line; std::getline(lines, line);) {
    // Patterns match lines written for people only.
    if (line.size() < 2000) search.read(line);
  }
  return search.take();
}

NextStep next_step(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::ok:
      return NextStep::none;
    case ExitCode::config:
    case ExitCode::data:
    case ExitCode::non_finite:
      return NextStep::give_up;
    case ExitCode::requeue:
      return NextStep::requeue;
    default:
      return NextStep::restart;
  }
}

std::string_view name_of(NextStep step) {
  constexpr std::array<std::string_view, 4> names{"none", "give up", "requeue", "restart"};
  return names.at(static_cast<std::size_t>(step));
}

bool may_pass(std::string_view text) {
  return std::ranges::any_of(
      std::array<std::string_view, 6>{"disk is full", "No space left", "isk quota", "is in use by",
                                      "could not be started", "is lost: the daemon"},
      [&](std::string_view words) { return text.find(words) != std::string_view::npos; });
}

bool would_come_again(int code, std::string_view log) {
  const auto says = [&](std::string_view words) {
    return log.find(words) != std::string_view::npos;
  };
  if (code == static_cast<int>(ExitCode::checkpoint))
    return says("is of another model or optimizer than the config");
  if (next_step(code) != NextStep::give_up) return false;
  if (code == static_cast<int>(ExitCode::non_finite)) return true;
  return !may_pass(log) && (says("] error: ") || (says("train.sbatch: ") && !code_in_log(log)));
}

std::string last_error(std::string_view log) {
  return last_words(log).error;
}

std::string last_message(std::string_view log) {
  const LastWords last = last_words(log);
  return last.error.empty() ? last.line : last.error;
}

}  // namespace trireme::campaign
