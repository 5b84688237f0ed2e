// SPDX-License-Identifier: Apache-2.0
#include "launch/top/log_end.h"

#include "launch/top/file_tail.h"

namespace trireme::top {

void follow_log_end(std::string& end, std::string_view line) {
  constexpr std::size_t longest_head = 60;  // time stamp, level, rank
  const std::string_view head = line.substr(0, longest_head);
  for (const std::string_view level : {"[error] ", "[critical] ", "[warning] "}) {
    const std::size_t found = head.find(level);
    if (found == std::string_view::npos) continue;
    end = line.substr(found);
    return;
  }
  if (head.find("[info] ") == std::string_view::npos) return;
  const std::size_t until = line.find(until_mark);
  end = until == std::string_view::npos ? "" : line.substr(until);
}

std::string log_end_of(const std::string& path) {
  std::string end;
  FileTail(path, log_window).poll([] {}, [&](std::string_view line) { follow_log_end(end, line); });
  return end;
}

}  // namespace trireme::top
