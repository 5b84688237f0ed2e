// SPDX-License-Identifier: Apache-2.0
// Which runs a user means: run directories, directories that hold some, and patterns, looked at
// again and again, for jobs of an array start when they like.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch/observe/top/run_view.h"

namespace trireme::top {

class RunSet {
 public:
  // Each a directory of a run, one above such directories, or a pattern of the shell (*, ?, []).
  explicit RunSet(std::vector<std::string> places);

  // Finds runs that came, forgets those that were found and are gone, and reads all of them. A
  // place that was named as such stays, as a run that is missing.
  void refresh();
  // In the order of the places, by name within each.
  [[nodiscard]] std::span<const RunView* const> views() const { return views_; }
  // More runs are there than are shown.
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  std::vector<std::string> places_;
  std::vector<std::unique_ptr<RunFollower>> runs_;
  std::vector<const RunView*> views_;
  std::size_t left_out_ = 0;
};

}  // namespace trireme::top
