// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/machine_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "runtime/base/clock.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

// Of this process and its finished children.
double process_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  rusage ended{};
  ::getrusage(RUSAGE_CHILDREN, &ended);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) +
         seconds(ended.ru_utime) + seconds(ended.ru_stime);
}

}  // namespace

RunDelay::RunDelay(const std::string& task)
    : file_(::open((task + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}

double RunDelay::milliseconds() const {
  std::array<char, 96> text{};  // three numbers: nanoseconds, nanoseconds, a count
  if (!file_.is_open() || ::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return 0;
  const char* const second = std::strchr(text.data(), ' ');
  return second == nullptr ? 0 : 1e-6 * static_cast<double>(std::strtoull(second, nullptr, 10));
}

double MachineLoad::others() const {
  return std::max(0.0, busy - own);
}

bool MachineLoad::disturbs() const {
  constexpr double of_cores = 0.05, of_time = 0.02;
  return others() + stolen >= of_cores * cores || waited >= of_time;
}

std::string describe(const MachineLoad& load) {
  std::string text = fmt::format("other processes used {:.1f} of {} core{}", load.others(),
                                 load.cores, load.cores == 1 ? "" : "s");
  constexpr double worth_telling = 0.05;  // cores; less is not reported
  if (load.stolen >= worth_telling)
    text += fmt::format(", other virtual machines {:.1f}", load.stolen);
  if (load.waited >= 0.005)
    text +=
        fmt::format(", and threads waited for cores in {:.0f} % of the time", 100 * load.waited);
  return text;
}

LoadMeter::LoadMeter() : cores_(allowed_cores()), first_(count()) {}

LoadMeter::Count LoadMeter::count() const {
  Count sum{.own = process_seconds(), .waited_ms = here_.milliseconds()};
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    // "cpu3 user nice system idle iowait irq softirq steal guest guest_nice": guests count as user.
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
    std::istringstream words(line.substr(3));
    int core = -1;
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0, steal = 0;
    words >> core >> user >> nice >> system >> idle >> io >> irq >> soft >> steal;
    if (!std::ranges::binary_search(cores_, core)) continue;
    sum.busy += tick * (user + nice + system + irq + soft);
    sum.stolen += tick * steal;
  }
  return sum;
}

MachineLoad LoadMeter::read() const {
  const double seconds = std::max(seconds_since(start_), 1e-9);
  const Count now = count();
  return {.cores = static_cast<int>(cores_.size()),
          .busy = (now.busy - first_.busy) / seconds,
          .stolen = (now.stolen - first_.stolen) / seconds,
          .own = (now.own - first_.own) / seconds,
          .waited = std::min(1.0, 1e-3 * (now.waited_ms - first_.waited_ms) / seconds)};
}

}  // namespace trireme
