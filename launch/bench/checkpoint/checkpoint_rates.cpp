// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/checkpoint/checkpoint_rates.h"

#include <algorithm>
#include <functional>

#include "launch/bench/checkpoint/plain_file.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/comm/gather_texts.h"

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

}  // namespace trireme
