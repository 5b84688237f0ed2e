// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/checkpoint/checkpoint_rates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>

#include "launch/study/statistics.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/output_directory.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

class Rounds {
 public:
  Rounds(const SavedState& state, CheckpointSaver& saver, const std::string& directory)
      : state_(state),
        world_(state.mesh.world()),
        saver_(saver),
        directory_(directory),
        plain_(fmt::format("{}/plain_{}", directory, world_.rank())),
        own_bytes_(save().bytes),
        reader_(own_bytes_) {}

  CheckpointRates run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      if (round % 2 == 0) write();
      const double all = timed([&] { last_ = save(); });
      rates_.copy.push_back(1e-3 * last_.copy_ms);
      rates_.save.push_back(all - rates_.copy.back());
      if (round % 2 == 1) write();
      read_cold();
      warm_up();
      rates_.plain_read_warm.push_back(timed([&] { reader_.read(plain_); }));
      rates_.verify_warm.push_back(timed([&] { verify(); }));
      rates_.restore_warm.push_back(timed([&] { restore(); }));
    }
    rates_.bytes = found_->manifest.value_bytes();
    return std::move(rates_);
  }

 private:
  double timed(const std::function<void()>& action) {
    world_.barrier();
    const auto start = std::chrono::steady_clock::now();
    action();
    world_.barrier();
    return seconds_since(start);
  }

  SaveReport save() {
    saver_.save(state_.stream, ++step_, "{}");
    saver_.finish();
    SaveReport report = *saver_.take_report();
    if (!report.committed()) fail(ExitCode::checkpoint, "{}", report.problem);
    return report;
  }

  void write() {
    rates_.plain_write.push_back(timed([&] { write_plainly(plain_, own_bytes_); }));
  }

  void verify() {
    found_ = find_newest_valid(parent_directory(last_.path), world_);
    if (!found_) fail(ExitCode::checkpoint, "{}: does not verify", last_.path);
  }

  void restore() {
    static_cast<void>(
        restore_checkpoint(*found_, state_.device, state_.stream, state_.placed, state_.values));
  }

  // Evictions and direct writes leave little of the files in the page cache.
  void warm_up() {
    reader_.read(plain_);
    verify();
    restore();
    rates_.warm_share.push_back(cached_share(directory_));
  }

  // On all hosts.
  bool forget() {
    const auto cold = gather_texts(world_, drop_page_cache(directory_) ? "cold" : "");
    return std::ranges::count(cold, "cold") == world_.size();
  }

  // Cold figures of a round are all or none: a page that stays cached spoils them.
  void read_cold() {
    if (!forget()) return;
    const double plain = timed([&] { reader_.read(plain_); });
    if (!forget()) return;
    const double verified = timed([&] { verify(); });
    const double resumed = verified + timed([&] { restore(); });
    if (!forget()) return;
    rates_.restore_cold.push_back(timed([&] { restore(); }));
    rates_.plain_read_cold.push_back(plain);
    rates_.verify_cold.push_back(verified);
    rates_.resume_cold.push_back(resumed);
  }

  const SavedState& state_;
  Communicator& world_;
  CheckpointSaver& saver_;
  const std::string& directory_;
  const std::string plain_;
  std::int64_t step_ = 0;
  std::uint64_t own_bytes_;  // size of this rank's file, from a save in the constructor
  PlainReader reader_;
  SaveReport last_;
  std::optional<FoundCheckpoint> found_;
  CheckpointRates rates_;
};

}  // namespace

CheckpointRates measure_checkpoints(const SavedState& state, CheckpointSaver& saver,
                                    const std::string& directory, int rounds) {
  return Rounds(state, saver, directory).run(rounds);
}

namespace {

constexpr ExitCode code = ExitCode::checkpoint;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

struct Pages {
  std::size_t all = 0, cached = 0;
};

// RWF_NOWAIT would tell too, but starts readahead.
Pages pages_of(const FileDescriptor& file, const std::string& path) {
  const auto bytes = static_cast<std::size_t>(regular_file_size(file, path, code));
  if (bytes == 0) return {};
  void* const begin = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (begin == MAP_FAILED) system_failed("mmap", path, code);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  const int looked = ::mincore(begin, bytes, resident.data());
  if (::munmap(begin, bytes) != 0) system_failed("munmap", path, code);
  if (looked != 0) system_failed("mincore", path, code);
  const auto cached =
      std::ranges::count_if(resident, [](unsigned char bits) { return (bits & 1U) != 0; });
  return {.all = resident.size(), .cached = static_cast<std::size_t>(cached)};
}

template <typename Visit>
void for_each_file(const std::string& directory, const Visit& visit) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    visit(open_for_reading(path, code), path);
  }
}

}  // namespace

void write_plainly(const std::string& path, std::uint64_t bytes) {
  const std::vector<std::byte> piece(piece_bytes, std::byte{7});
  FileDescriptor file = OutputDirectory(parent_directory(path), code)
                            .create(std::filesystem::path(path).filename(), O_WRONLY);
  for (std::uint64_t left = bytes; left > 0;) {
    const auto part = std::min<std::uint64_t>(left, piece_bytes);
    write_fully(file, path, std::span(piece).first(part), code);
    left -= part;
  }
  if (::fsync(file.get()) != 0) write_failed("fsync", path, code);
  file.close(path, code);
}

void PlainReader::read(const std::string& path) {
  const FileDescriptor file = open_for_reading(path, code);
  for (std::uint64_t done = 0; done < memory_.size();) {
    const auto part = std::min<std::uint64_t>(memory_.size() - done, piece_bytes);
    read_exactly(file, path, done, std::span(memory_).subspan(done, part), code);
    done += part;
  }
}

bool drop_page_cache(const std::string& directory) {
  bool cold = true;
  for_each_file(directory, [&](const FileDescriptor& file, const std::string& path) {
    if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      errno = error;
      system_failed("posix_fadvise", path, code);
    }
    cold = pages_of(file, path).cached == 0 && cold;
  });
  return cold;
}

double cached_share(const std::string& directory) {
  Pages sum;
  for_each_file(directory, [&](const FileDescriptor& file, const std::string& path) {
    const Pages pages = pages_of(file, path);
    sum.all += pages.all;
    sum.cached += pages.cached;
  });
  return sum.all == 0 ? 1 : static_cast<double>(sum.cached) / static_cast<double>(sum.all);
}

namespace {

constexpr int warm_up_steps = 3;
constexpr int max_steps = 100;
// The saver does not rewrite the last written step.
constexpr std::int64_t saved_before = 1'000'000;

class Steps {
 public:
  Steps(Session& session, StepEngine& engine, BatchSource& source)
      : session_(session), engine_(engine), source_(source) {}

  // Milliseconds of `count` steps after `before`; as in training, a step is read while the next one
  // runs.
  template <typename Before>
  double run(int count, Before&& before) {
    session_.world->barrier();
    const auto start = std::chrono::steady_clock::now();
    before();
    for (int i = 0; i < count; ++i, ++step_) {
      engine_.run(step_, source_);
      if (i > 0) static_cast<void>(engine_.read(step_ - 1));
    }
    static_cast<void>(engine_.read(step_ - 1));
    session_.world->barrier();
    return 1e3 * seconds_since(start);
  }
  [[nodiscard]] std::int64_t done() const { return step_; }

 private:
  Session& session_;
  StepEngine& engine_;
  BatchSource& source_;
  std::int64_t step_ = 0;
};

// Equal on all ranks, although their clocks differ.
int steps_beside(Communicator& world, double save_seconds, double step_ms) {
  const int own =
      std::clamp(static_cast<int>(std::ceil(1e3 * save_seconds / step_ms)) + 1, 2, max_steps);
  int max = 0;
  for (const std::string& text : gather_texts(world, std::to_string(own)))
    max = std::max(max, std::stoi(text));
  return max;
}

}  // namespace

StepStall measure_stall(Session& session, StepEngine& engine, BatchSource& source,
                        CheckpointSaver& saver, double save_seconds, int rounds) {
  Steps steps(session, engine, source);
  const auto nothing = [] {};
  steps.run(warm_up_steps, nothing);
  const double step_ms = steps.run(warm_up_steps, nothing) / warm_up_steps;
  StepStall stall;
  stall.steps = steps_beside(*session.world, save_seconds, step_ms);
  for (int round = 0; round < rounds; ++round) {
    const double without = steps.run(stall.steps, nothing);
    stall.plain.push_back(without / stall.steps);
    const double with = steps.run(stall.steps, [&] {
      saver.save(*session.streams.compute, saved_before + steps.done(), "{}");
    });
    stall.longer.push_back(with - without);
    saver.finish();
    const SaveReport report = *saver.take_report();
    if (!report.committed()) fail(ExitCode::checkpoint, "{}", report.problem);
    stall.copy.push_back(report.copy_ms);
    stall.held.push_back(report.stall_ms);
  }
  return stall;
}

std::string stall_text(const StepStall& stall) {
  const double step = studies::median_of(stall.plain), longer = studies::median_of(stall.longer),
               copy = studies::median_of(stall.copy);
  std::vector<double> beyond;  // per round, percent of a step
  for (std::size_t round = 0; round < stall.longer.size(); ++round)
    beyond.push_back(100 * (stall.longer[round] - stall.copy[round]) / step);
  const auto [least, most] = std::ranges::minmax(beyond);
  const double held = studies::median_of(stall.held);
  std::string text =
      fmt::format("{:<26} {:.1f} ms, {:.1f} % of a step of {:.1f} ms beyond copying\n",
                  "save() held training for", held, 100 * std::max(0.0, held - copy) / step, step);
  const std::string name = fmt::format("{} steps beside the write", stall.steps);
  if (least > 0) {
    text += fmt::format(
        "{:<26} {:.1f} ms longer, {:.1f} % of a step beyond copying ({:.1f} to {:.1f} %)\n", name,
        longer, studies::median_of(beyond), least, most);
  } else {
    // Some rounds with a save were shorter than those without: the cost is below the noise.
    text +=
        fmt::format("{:<26} no longer than the noise: {:.1f} to {:.1f} % of a step in {} rounds\n",
                    name, least, most, beyond.size());
  }
  return text;
}

}  // namespace trireme
