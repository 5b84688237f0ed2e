// SPDX-License-Identifier: Apache-2.0
// Compares ways to read the same samples: their rounds alternate, so other load affects all of
// them, and the best round of each counts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// Duration and threads.
struct BenchSize {
  std::int64_t threads = 2;        // of the second group of rows
  std::int64_t megabytes = 256;    // limit of stored bytes, so that they stay in the page cache
  std::int64_t rounds = 5;         // per method; the best counts
  double seconds = 0.25;           // of a round
  std::string python = "python3";  // runs the peers
};

// Reads one sample into its own memory; used by one thread.
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

// Columns are those of print_reading_head(). Shares are relative to `plain`.
void print_reading_head(const std::string& megabytes, const std::string& share_of);
void print_reading_row(const std::string& name, std::int64_t threads, double rate,
                       double bytes_per_sample, double plain);

// Runs a Python script that prints lines "rate NAME THREADS SAMPLES_PER_SECOND", one row each;
// other lines, which explain missing rates, are shown. `arguments` are quoted for the shell.
struct PeerScript {
  std::string python, script, option;  // `option`: names another script
  std::vector<std::string> arguments;
};
void print_peers(const PeerScript& peers, double bytes_per_sample, double plain);
// Its path: as given, in the program's repository, or installed with it; "": not found.
[[nodiscard]] std::string peer_script(const std::string& given);

// Reading speed of HDF5 files in place, one sample per file: pread of the stored bytes, the decoder
// alone after it, our reader, h5py, and PyTorch's DataLoader with h5py in its workers.
struct FieldBench : BenchSize {
  std::string files;   // file, directory or pattern
  std::string input;   // path of the data set
  std::string target;  // of the labels
  std::string axes = "HWC";
  std::string script = "scripts/peers/bench_h5py_fields.py";
};

void bench_fields(const FieldBench& bench);

// Reading speed of images in place: pread of the stored bytes, full decoding, our reader with
// random resized crops, the loader to device batches, and torchvision with PyTorch's DataLoader.
struct ImageBench : BenchSize {
  std::string images;  // archive, directory or pattern
  std::string label = "cls";
  std::int64_t side = 224;  // of samples
  std::string script = "scripts/peers/bench_torchvision.py";
};

void bench_images(const ImageBench& bench);

}  // namespace trireme
