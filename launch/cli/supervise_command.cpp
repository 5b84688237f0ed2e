// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <regex>

#include "launch/campaign/cluster/job_end.h"
#include "launch/campaign/supervisor.h"
#include "launch/cli/commands.h"
#include "launch/cli/number_check.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using campaign::SuperviseOptions;

void supervise(SuperviseOptions options, const std::vector<std::string>& hosts) {
  const auto has = [&](const char* name) {
    return std::ranges::any_of(options.command, [&](const std::string& word) {
      return word.find(name) != std::string::npos;
    });
  };
  if (options.command.empty()) fail(ExitCode::config, "supervise: no command after --");
  if (!hosts.empty() && !(has("{hosts}") && has("{ranks}"))) {
    fail(ExitCode::config,
         "supervise: --hosts: the command lacks {{hosts}} or {{ranks}}, which are replaced by the "
         "hosts that answer and their ranks");
  }
  for (const std::string& host : hosts) {
    const auto colon = host.find(':');
    options.hosts.emplace_back(host.substr(0, colon),
                               colon == std::string::npos ? 1 : std::stoll(host.substr(colon + 1)));
  }
  if (const int code = campaign::supervise(options); code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_supervise_command(CLI::App& app, const std::vector<std::string>& command_line) {
  auto* const command = app.add_subcommand(
      "supervise", "launch/supervise.sh: starts a command again until its run is done");
  command->group("");
  struct Arguments {
    SuperviseOptions options;
    std::vector<std::string> hosts, words;
    int after = 0;
  };
  const auto all = std::make_shared<Arguments>();
  SuperviseOptions& options = all->options;
  const auto whole = integer_between<std::int64_t>(0, 999'999'999);
  const auto number = [&](const char* name, std::int64_t& value, const char* what) {
    command->add_option(name, value, what)
        ->transform([](std::string text) {  // 08 is 8, not octal
          return text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
        })
        ->check(whole)
        ->capture_default_str();
  };
  number("--max-restarts", options.max_restarts,
         "Failures to start again after; a stop at a deadline costs none");
  number("--backoff", options.backoff,
         "Seconds before the first restart, doubled with each failure up to 16 times; at most 1 if "
         "the failed start had made steps");
  number("--no-progress", options.no_progress,
         "Give up after this many failures without a newer checkpoint");
  number("--min-ranks", options.min_ranks, "Wait until hosts for this many ranks answer");
  command
      ->add_option("--restart-on", options.restart_on,
                   "Start again after this exit code too (6: a loss that is not finite); may be "
                   "repeated")
      ->check(whole)
      ->allow_extra_args(false);
  command->add_option("--run", options.run, "Run directory, if the command does not name it");
  command
      ->add_option("--hosts", all->hosts,
                   "a:8,b:8: each start uses the hosts that answer, with this many ranks each "
                   "(default 1), and does not wait if they differ from the previous start's; "
                   "{hosts} and {ranks} in the command are replaced by them")
      ->check([](const std::string& host) {
        static const std::regex pattern("[^,: ]+(:[1-9][0-9]{0,4})?");
        return std::regex_match(host, pattern) ? ""
                                               : "'" + host + "' is not in a list like a:8,b:8";
      })
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", options.ranks,
                   "2,4,8: the numbers of ranks that the config can run on; the largest that there "
                   "are hosts for (default: all)")
      ->check(integer_between<std::int64_t>(1, 999'999'999))
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* const after =
      command->add_option("--after", all->after,
                          "Print the action after this exit code: none, give up, requeue, restart");
  // Taken from the raw command line, which the parser would reinterpret.
  command->add_option("command", all->words, "Behind --: the command");
  command->callback([all, after, command_line] {
    if (after->count() > 0) {
      fmt::print("{}\n", campaign::name_of(campaign::next_step(all->after)));
      return;
    }
    const auto mark = std::ranges::find(command_line, "--");
    if (mark != command_line.end()) all->options.command.assign(mark + 1, command_line.end());
    supervise(all->options, all->hosts);
  });
}

}  // namespace trireme
