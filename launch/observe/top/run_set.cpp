// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/run_set.h"

#include <algorithm>
#include <set>

#include "launch/run/run_files.h"

namespace trireme::top {
namespace {

constexpr std::size_t most_runs = 1000;

}  // namespace

RunSet::RunSet(std::vector<std::string> places) : places_(std::move(places)) {}

void RunSet::refresh() {
  std::vector<std::string> directories;
  std::set<std::string> seen;
  for (const std::string& place : places_)
    for (std::string& directory : runs::runs_at(place))
      if (seen.insert(directory).second) directories.push_back(std::move(directory));
  left_out_ = directories.size() - std::min(directories.size(), most_runs);
  directories.resize(directories.size() - left_out_);
  const std::vector<std::string> names = runs::distinguishing_names(directories);
  std::vector<std::unique_ptr<RunFollower>> runs;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    const auto known = std::ranges::find_if(runs_, [&](const auto& run) {
      return run != nullptr && run->view().directory == directories[i];
    });
    runs.push_back(known != runs_.end() ? std::move(*known)
                                        : std::make_unique<RunFollower>(directories[i]));
    runs.back()->rename(names[i]);
  }
  runs_ = std::move(runs);
  views_.clear();
  for (const auto& run : runs_) {
    run->refresh();
    views_.push_back(&run->view());
  }
}

}  // namespace trireme::top
