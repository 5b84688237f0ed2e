// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/campaign_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "launch/study/scale/study.h"
#include "runtime/base/file.h"
#include "runtime/config/suggest.h"
#include "runtime/config/value.h"

namespace trireme::campaign {
namespace {

namespace fs = std::filesystem;
using config::Node;

constexpr std::int64_t most_nodes = 65536, most_ranks_per_node = 1024, year_of_minutes = 527040;
constexpr double most_hours = 1e9, year_of_seconds = 3.2e7;

// A value as given.
struct Given {
  const Node& node;
  std::string place;  // "campaign.yaml:3: nodes.min"

  [[noreturn]] void refuse(const std::string& message) const {
    fail(ExitCode::config, "{}: {}", place, message);
  }
};

struct Row {
  std::string_view key, otherwise, meaning;
  config::Slot (*slot)(CampaignFile& file);
  config::Limits limits;
  // Checks or changes the value once it is read.
  void (*then)(CampaignFile& file, const Given& given) = nullptr;
};
#define SLOT(member) [](CampaignFile& file) -> config::Slot { return &file.member; }

// Searched in the current directory, then beside the campaign file, like the data of configs.
std::string found_file(const std::string& name, const std::string& beside) {
  std::error_code error;
  const fs::path near = fs::path(beside).parent_path() / name;
  const bool take_near = !fs::exists(name, error) && fs::exists(near, error);
  return fs::absolute(take_near ? near : fs::path(name)).lexically_normal().string();
}

// Relative to the campaign file, so it does not depend on the current directory.
std::string place_of_campaign(const fs::path& directory, const std::string& file) {
  return fs::absolute(fs::path(file).parent_path() / directory).lexically_normal().string();
}

// Valid for ssh, mpirun's host list and a shell.
void check_host(const Given& given, const std::string& host) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (host.starts_with('-') || host.find_first_not_of(allowed) != std::string::npos) {
    given.refuse(
        fmt::format("'{}' is not the name of a host; write only names, of letters, digits, dots "
                    "and dashes (ranks_per_node sets the ranks of each)",
                    host));
  }
}

// A single text is a file with one host a line.
void read_hosts(CampaignFile& file, const Given& given) {
  if (given.node.kind == Node::Kind::scalar) {
    const std::string path = found_file(file.hosts.front(), file.path);
    file.hosts.clear();
    std::istringstream lines(read_whole_file(path, std::uint64_t{1} << 20U, ExitCode::config));
    for (std::string line; std::getline(lines, line);) {
      // Open MPI's host files have "slots=N" after the name.
      std::istringstream words(line.substr(0, line.find('#')));
      if (std::string host; words >> host) file.hosts.push_back(host);
    }
    if (file.hosts.empty()) given.refuse(fmt::format("{}: has no host; write one per line", path));
  }
  for (const std::string& host : file.hosts)
    check_host(given, host);
}

// "2026-12-24T18:00:00Z"
void read_end(CampaignFile& file, const Given& given) {
  std::tm utc{};
  const char* const end = ::strptime(given.node.text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (end == nullptr || *end != '\0')
    given.refuse(fmt::format("'{}' is not a date; write a UTC date such as 2026-12-24T18:00:00Z",
                             given.node.text));
  file.end = static_cast<double>(::timegm(&utc));
}

// In the order of the documentation.
const std::vector<Row>& rows() {
  using config::Free, config::IntegerRange, config::NumberRange;
  const config::Text text{.may_be_empty = false};
  const config::Text texts{.may_be_empty = false, .items = {1, config::max_items}};
  const IntegerRange nodes{.low = 1, .high = most_nodes};
  const NumberRange hours{.low = 0, .high = most_hours};
  static const std::vector<Row> all = {
      {"config", "required", "config file of `trireme train`", SLOT(config), text,
       [](CampaignFile& file, const Given& /*given*/) {
         file.config = found_file(file.config, file.path);
       }},
      {"set", "none", "list of `key=value`, as `--set`", SLOT(set), texts},
      {"directory", "campaigns/NAME of the file",
       "state, logs, status page, and the run in `run`; all nodes must see it; a relative path is "
       "relative to this file",
       SLOT(directory), text,
       [](CampaignFile& file, const Given& /*given*/) {
         file.directory = place_of_campaign(file.directory, file.path);
       }},
      {"nodes.min", "1", "minimum nodes of a job", SLOT(min_nodes), nodes},
      {"nodes.max", "nodes.min", "maximum nodes of a job", SLOT(max_nodes), nodes},
      {"ranks_per_node", "1", "ranks, thus GPUs, per node", SLOT(ranks_per_node),
       IntegerRange{.low = 1, .high = most_ranks_per_node}},
      {"layouts", "the planner's",
       "list of layouts such as `data=4:tensor=2`, each for its number of ranks; default: the "
       "fastest on `parallel.hardware`, else the config's",
       SLOT(layouts), texts},
      {"hosts", "Slurm",
       "list of hosts for mpirun, or a file with one per line; default: hosts of Slurm",
       SLOT(hosts), texts, read_hosts},
      {"slurm.partitions", "the default one", "list of partitions; the best offer is taken",
       SLOT(slurm.partitions), texts},
      {"slurm.account", "the user's", "account to charge", SLOT(slurm.account), text},
      {"slurm.qos", "the account's", "quality of service", SLOT(slurm.qos), text},
      {"slurm.minutes", "the partition's", "time limit of one job", SLOT(slurm.minutes),
       IntegerRange{.low = 1, .high = year_of_minutes}},
      {"slurm.options", "none", "list of further arguments for sbatch, such as `--gpus-per-node=8`",
       SLOT(slurm.options), texts},
      {"budget.node_hours", "0", "node-hours of all jobs together; 0: no limit", SLOT(node_hours),
       hours},
      {"budget.end", "never", "UTC date by which the last job must have stopped", SLOT(end_date),
       text, read_end},
      {"failures.exclude_hours", "12", "hours to exclude a host that died or failed its check",
       SLOT(exclude_hours), hours},
      {"failures.no_progress", "5",
       "give up after this many consecutive jobs without a newer checkpoint", SLOT(no_progress),
       nodes},
      {"failures.backoff_seconds", "10", "pause after a failure; doubled with each, up to 16 times",
       SLOT(backoff_seconds), NumberRange{.low = 0, .high = year_of_seconds}},
      {"failures.health_check", "false",
       "`trireme doctor` on the nodes of each job before it trains", SLOT(health_check), Free{}},
      {"better.gain", "1.3",
       "stop a running job if another would finish the rest this many times faster; 0: never",
       SLOT(gain), hours,
       [](CampaignFile& file, const Given& given) {
         if (file.gain > 0 && file.gain < 1)
           given.refuse(fmt::format(
               "{:g} would replace jobs by slower ones; allowed: 0, or 1 and above", file.gain));
       }},
      {"better.after_minutes", "20", "minimum run time of a job before `better.gain` applies",
       SLOT(better_after_minutes), NumberRange{.low = 0, .high = 1.0 * year_of_minutes}},
      {"poll_seconds", "30", "seconds between two polls of the job and the offers",
       SLOT(poll_seconds), NumberRange{.low = 0.1, .high = 3600}}};
  return all;
}

bool is_section(std::string_view name) {
  return std::ranges::any_of(rows(), [&](const Row& row) {
    return row.key.size() > name.size() && row.key.starts_with(name) && row.key[name.size()] == '.';
  });
}

void read_key(CampaignFile& file, const std::string& key, const Node& node, int line) {
  const Given given{node, fmt::format("{}:{}: {}", file.path, line, key)};
  const auto row = std::ranges::find(rows(), std::string_view(key), &Row::key);
  if (row == rows().end()) {
    std::vector<std::string_view> keys, words, within;
    for (const Row& each : rows()) {
      keys.push_back(each.key);
      words.insert(words.end(), {each.key, each.key.substr(0, each.key.find('.'))});
      if (each.key.starts_with(key + ".")) within.push_back(each.key);
    }
    if (!within.empty())
      given.refuse(fmt::format("has keys of its own; give some of {}", fmt::join(within, ", ")));
    const std::string_view near = config::closest(key, words);
    given.refuse(near.empty() ? fmt::format("unknown key; known are {}", fmt::join(keys, ", "))
                              : fmt::format("unknown key; did you mean {}?", near));
  }
  file.places.push_back({key, line});
  config::read_value(node, row->slot(file), row->limits, given.place);
  if (row->then != nullptr) row->then(file, given);
}

void check_layouts(const CampaignFile& file) {
  if (file.layouts.empty()) return;
  with_context(file.where("layouts"), [&] {
    for (const std::string& layout : file.layouts)
      (void)scale::parse_layouts(layout);
  });
}

// Rules that span keys.
void check(CampaignFile& file, bool max_given) {
  if (file.config.empty())
    fail(ExitCode::config, "{}: config: missing; name the config file of trireme train", file.path);
  if (!max_given) file.max_nodes = std::max(file.max_nodes, file.min_nodes);
  if (file.min_nodes > file.max_nodes) {
    fail(ExitCode::config, "{}: {} is more than nodes.max: {}; use nodes: {{min: {}, max: {}}}",
         file.where("nodes.min"), file.min_nodes, file.max_nodes, file.max_nodes, file.min_nodes);
  }
  const auto hosts = static_cast<std::int64_t>(file.hosts.size());
  if (!file.under_slurm() && file.min_nodes > hosts) {
    fail(ExitCode::config, "{}: {} nodes, but hosts has {}; use at most {}, or name more hosts",
         file.where("nodes.min"), file.min_nodes, hosts, hosts);
  }
  for (const auto& place : file.places) {
    if (file.under_slurm() || !place.key.starts_with("slurm.")) continue;
    fail(ExitCode::config, "{}: has no effect with hosts, which mpirun starts; remove one of them",
         file.where(place.key));
  }
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    if (std::ranges::count(file.hosts, file.hosts[i]) > 1)
      fail(ExitCode::config, "{}: {} is named twice; keep one", file.where("hosts"), file.hosts[i]);
  }
  for (const std::string& setting : file.set) {
    if (setting.starts_with("run.directory="))
      fail(ExitCode::config, "{}: {}: the run is {}; set directory instead", file.where("set"),
           setting, file.run_directory());
  }
  check_layouts(file);
}

}  // namespace

std::string CampaignFile::where(const std::string& key) const {
  const auto found = std::ranges::find(places, key, &Place::key);
  return found == places.end() ? fmt::format("{}: {}", path, key)
                               : fmt::format("{}:{}: {}", path, found->line, key);
}

CampaignFile parse_campaign(const std::string& text, const std::string& path) {
  CampaignFile file{.path = path};
  const fs::path name = fs::path(path).stem();
  file.directory = place_of_campaign("campaigns" / name, path);
  const Node root = config::parse_document(text, path);
  if (root.kind != Node::Kind::map) {
    fail(ExitCode::config, "{}:{}: expected keys such as \"config: configs/gpt_tiny.yaml\"", path,
         root.line);
  }
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    const Node& item = root.items[i];
    if (item.kind != Node::Kind::map || !is_section(root.keys[i])) {
      read_key(file, root.keys[i], item, root.key_lines[i]);
      continue;
    }
    for (std::size_t j = 0; j < item.items.size(); ++j)
      read_key(file, root.keys[i] + "." + item.keys[j], item.items[j], item.key_lines[j]);
  }
  check(file, std::ranges::find(file.places, "nodes.max", &CampaignFile::Place::key) !=
                  file.places.end());
  return file;
}

CampaignFile load_campaign(const std::string& path) {
  return parse_campaign(read_whole_file(path, config::max_bytes, ExitCode::config), path);
}

std::string campaign_keys_markdown() {
  std::string text = "| key | default | meaning |\n|---|---|---|\n";
  for (const Row& row : rows())
    text += fmt::format("| `{}` | {} | {} |\n", row.key, row.otherwise, row.meaning);
  return text;
}

std::string campaign_keys_text() {
  std::string text;
  for (const Row& row : rows()) {
    // Backticks are only for Markdown.
    std::string meaning(row.meaning);
    std::erase(meaning, '`');
    text += fmt::format("{:<24} default {:<24} {}\n", row.key, row.otherwise, meaning);
  }
  return text;
}

}  // namespace trireme::campaign
