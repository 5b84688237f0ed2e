// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/data/reading.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"

namespace trireme {
namespace {

double run_one_round(const ReadingMethod& method, const ReadingRounds& rounds) {
  std::atomic<std::uint64_t> samples = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto run = [&](std::int64_t thread) {
    const ReadOne read = method.make();
    std::uint64_t done = 0;
    std::size_t at = rounds.order.size() * static_cast<std::size_t>(thread) /
                     static_cast<std::size_t>(method.threads);
    do {
      for (int i = 0; i < rounds.at_once;
           ++i, ++done, at = at + 1 == rounds.order.size() ? 0 : at + 1)
        read(rounds.order[at]);
    } while (seconds_since(start) < rounds.seconds);
    samples += done;
  };
  {
    std::vector<std::jthread> pool;
    for (std::int64_t t = 1; t < method.threads; ++t)
      pool.emplace_back(run, t);
    run(0);
  }
  return static_cast<double>(samples) / seconds_since(start);
}

}  // namespace

void run_rounds(std::vector<ReadingMethod>& methods, const ReadingRounds& rounds) {
  const ReadOne warm = methods.front().make();
  for (const std::size_t sample : rounds.order)
    warm(sample);
  for (std::int64_t round = 0; round < rounds.rounds; ++round) {
    for (ReadingMethod& method : methods)
      method.best = std::max(method.best, run_one_round(method, rounds));
  }
}

void print_reading_head(const std::string& megabytes, const std::string& share_of) {
  fmt::print("  {:<34} {:>7} {:>12} {:>12} {:>11}\n", "", "threads", megabytes, "samples/s",
             share_of);
}

void print_reading_row(const std::string& name, std::int64_t threads, double rate,
                       double bytes_per_sample, double plain) {
  fmt::print("  {:<34} {:>7} {:>12.1f} {:>12.1f} {:>9.1f} %\n", name, threads,
             rate * bytes_per_sample * 1e-6, rate, 100 * rate / plain);
}

std::string peer_script(const std::string& given) {
  return std::filesystem::exists(given) ? given : own_script(given);
}

void print_peers(const PeerScript& peers, double bytes_per_sample, double plain) {
  const std::string script = peer_script(peers.script);
  if (script.empty()) {
    fmt::print("  peers: not measured: {} not found; give {}\n", peers.script, peers.option);
    return;
  }
  std::string command = shell_word(peers.python) + " " + shell_word(script);
  for (const std::string& argument : peers.arguments)
    command += " " + shell_word(argument);
  std::fflush(stdout);
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) system_failed("popen", peers.script);
  char line[512] = "";
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    char name[64] = "";
    long threads = 0;
    double rate = 0;
    if (std::sscanf(line, "rate %63s %ld %lf", name, &threads, &rate) == 3) {
      std::string words = name;
      std::ranges::replace(words, '_', ' ');
      print_reading_row(words, threads, rate, bytes_per_sample, plain);
    } else {
      fmt::print("  {}", line);
    }
  }
  ::pclose(pipe);
}

}  // namespace trireme
