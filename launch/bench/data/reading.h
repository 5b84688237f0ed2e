// SPDX-License-Identifier: Apache-2.0
// Ways to read the same samples, side by side: their rounds alternate and the best round of each
// counts, so that other load on the machine hits none of them alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// How long and by how many.
struct BenchSize {
  std::int64_t threads = 2;  // of the second group of rows
  std::int64_t megabytes =
      256;                  // stored bytes touched at most, so that they stay in the page cache
  std::int64_t rounds = 5;  // per method; the best counts
  double seconds = 0.25;    // of a round
  std::string python = "python3";  // which runs the peers
};

// Reads one sample into memory of its own; belongs to one thread.
using ReadOne = std::function<void(std::size_t sample)>;

struct ReadingMethod {
  std::string name;
  std::int64_t threads = 1;
  std::function<ReadOne()> make;
  double best = 0;  // samples per second
};

struct ReadingRounds {
  std::span<const std::size_t> order;  // of samples
  std::int64_t rounds = 1;
  double seconds = 0;  // of a round
  int at_once = 1;     // samples between two looks at the clock
};

// Reads every sample once by the first method, then runs all of them.
void run_rounds(std::vector<ReadingMethod>& methods, const ReadingRounds& rounds);

// Columns are those of print_reading_head(). `plain`: the rate that a share is given of.
void print_reading_head(const std::string& megabytes, const std::string& share_of);
void print_reading_row(const std::string& name, std::int64_t threads, double rate,
                       double bytes_per_sample, double plain);

// Runs a Python script that prints lines "rate NAME THREADS SAMPLES_PER_SECOND", rows each; other
// lines, which say why there is none, are shown. `arguments` are quoted for the shell.
struct PeerScript {
  std::string python, script, option;  // `option`: which names another script
  std::vector<std::string> arguments;
};
void print_peers(const PeerScript& peers, double bytes_per_sample, double plain);
// Where it is: here, in the program's repository, or installed with it; "": nowhere.
[[nodiscard]] std::string peer_script(const std::string& given);

}  // namespace trireme
