// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/waits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace trireme::emulated {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_between_looks = 100ms;
constexpr auto time_to_print = 1s;
constexpr int most_ranks = 64;

// A rank's entry in shared memory.
struct Place {
  std::atomic<std::uint64_t> progress;
  std::atomic<int> waits;      // threads that wait in the emulator
  std::atomic<int> computing;  // threads that are at work for the device
  std::atomic<bool> joined, ended, printed;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Never destroyed: threads of the emulator outlive static objects.
struct Registry {
  std::mutex mutex;
  std::list<std::pair<std::string, std::string>> waits;  // thread, description
  std::array<Place, most_ranks> own{};
  std::atomic<Place*> places = own.data();
  std::atomic<int> rank = 0, ranks = 1;
  std::string job;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

Place& place() {
  return registry().places.load()[registry().rank];
}

std::chrono::duration<double> patience() {
  const char* const text = std::getenv("TRIREME_EMULATED_PATIENCE");
  return std::chrono::duration<double>(text == nullptr ? 20.0 : std::strtod(text, nullptr));
}

void print_waits() {
  Registry& self = registry();
  const std::lock_guard lock(self.mutex);
  self.waits.sort();  // by thread: the order of arrival is arbitrary
  std::string text = "CUDA emulator: deadlock: no rank of the job has done anything for " +
                     std::to_string(static_cast<int>(patience().count())) + " s; rank " +
                     std::to_string(self.rank) + " waits:";
  for (const auto& [thread, what] : self.waits)
    text += "\n  " + thread + ": " + what;
  std::fprintf(stderr, "%s\n", (text + (self.waits.empty() ? " outside of CUDA" : "")).c_str());
}

// Whether some thread waits, and no rank computes.
bool all_stand_still(std::uint64_t& sum) {
  Registry& self = registry();
  Place* const places = self.places;
  sum = 0;
  int waits = 0, computing = 0;
  for (int rank = 0; rank < self.ranks; ++rank) {
    sum += places[rank].progress;
    if (places[rank].ended) continue;
    waits += places[rank].waits;
    computing += places[rank].computing;
  }
  return waits > 0 && computing == 0;
}

void look_for_deadlock() {
  std::uint64_t before = ~std::uint64_t{0};
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    std::this_thread::sleep_for(pause_between_looks);
    std::uint64_t sum = 0;
    const bool still = all_stand_still(sum);
    if (!still || sum != before) {
      before = sum;
      since = std::chrono::steady_clock::now();
      continue;
    }
    if (std::chrono::steady_clock::now() - since < patience()) continue;
    print_waits();
    place().printed = true;
    std::this_thread::sleep_for(time_to_print);  // the launcher kills the others after the first
    std::abort();
  }
}

void start_watching() {
  static const bool watching = [] {
    if (patience().count() <= 0) return false;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the program
    std::thread(look_for_deadlock).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return true;
  }();
  static_cast<void>(watching);
}

std::string name_of_thread() {
  if (gettid() == getpid()) return "main thread";
  std::array<char, 32> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return std::string("thread ") + name.data();
}

thread_local int computing = 0;
thread_local std::list<std::pair<std::string, std::string>>::iterator mine;
thread_local int depth = 0;

}  // namespace

ScopedWait::ScopedWait(std::string what) {
  start_watching();
  if (depth++ > 0) return;
  Registry& self = registry();
  if (computing > 0) --place().computing;
  ++place().waits;
  const std::lock_guard lock(self.mutex);
  mine = self.waits.emplace(self.waits.end(), name_of_thread(), std::move(what));
}

ScopedWait::~ScopedWait() {
  if (--depth > 0) return;
  Registry& self = registry();
  {
    const std::lock_guard lock(self.mutex);
    self.waits.erase(mine);
  }
  --place().waits;
  if (computing > 0) ++place().computing;
  progress();
}

Computing::Computing() {
  if (computing++ == 0) ++place().computing;
}

Computing::~Computing() {
  if (--computing == 0) --place().computing;
  progress();
}

void progress() {
  ++place().progress;
}

// Before other threads of this process wait: their counts would stay in the old place.
void join_job(const std::string& name, int rank, int ranks) {
  Registry& self = registry();
  const std::lock_guard lock(self.mutex);
  if (!self.job.empty() || ranks > most_ranks) return;
  self.job = "/trireme_emulated_" + name;
  const int file = shm_open(self.job.c_str(), O_RDWR | O_CREAT, 0600);
  constexpr std::size_t bytes = sizeof(Place) * most_ranks;
  if (file < 0 || ftruncate(file, bytes) != 0) return;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return;
  auto* const places = static_cast<Place*>(memory);
  Place& here = places[rank];
  here.progress = self.own[0].progress.load();
  here.waits += self.own[0].waits;
  here.computing += self.own[0].computing;
  self.rank = rank;
  self.places = places;
  self.ranks = ranks;
  static_cast<void>(std::atexit([] { place().ended = true; }));
}

void release_job_name() {
  const std::lock_guard lock(registry().mutex);
  shm_unlink(registry().job.c_str());
}

}  // namespace trireme::emulated
