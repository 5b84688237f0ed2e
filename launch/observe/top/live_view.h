// SPDX-License-Identifier: Apache-2.0
// `trireme top`: runs on a terminal until the user quits, or printed once.
#pragma once

#include <string>
#include <vector>

namespace trireme::top {

struct Request {
  std::vector<std::string> places;
  double interval_seconds = 2;
  bool once = false;
  bool json = false;  // print once, as JSON
};

// On a terminal that can redraw: until q, ^C or another signal. Otherwise, or with `once`, one page
// on standard output, with `json` for scripts. Raises ExitCode::config if a page has nothing to
// show.
void show(const Request& request);

}  // namespace trireme::top
