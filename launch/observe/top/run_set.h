// SPDX-License-Identifier: Apache-2.0
// The runs that a user names: run directories, directories of runs, and patterns, searched
// repeatedly, because array jobs start at any time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch/observe/top/run_view.h"

namespace trireme::top {

class RunSet {
 public:
  // Each a run directory, a parent of such directories, or a shell pattern (*, ?, []).
  explicit RunSet(std::vector<std::string> places);

  // Finds new runs, drops runs that are gone, and reads all. A place named directly stays, as a
  // missing run.
  void refresh();
  // In the order of the places, by name within each.
  [[nodiscard]] std::span<const RunView* const> views() const { return views_; }
  // Number of runs that are not shown.
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  std::vector<std::string> places_;
  std::vector<std::unique_ptr<RunFollower>> runs_;
  std::vector<const RunView*> views_;
  std::size_t left_out_ = 0;
};

}  // namespace trireme::top
