// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/checkpoint/step_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/study/scale/interval.h"
#include "runtime/base/clock.h"
#include "runtime/comm/gather_texts.h"

namespace trireme {
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
  const double step = scale::median_of(stall.plain), longer = scale::median_of(stall.longer),
               copy = scale::median_of(stall.copy);
  std::vector<double> beyond;  // per round, percent of a step
  for (std::size_t round = 0; round < stall.longer.size(); ++round)
    beyond.push_back(100 * (stall.longer[round] - stall.copy[round]) / step);
  const auto [least, most] = std::ranges::minmax(beyond);
  const double held = scale::median_of(stall.held);
  std::string text =
      fmt::format("{:<26} {:.1f} ms, {:.1f} % of a step of {:.1f} ms beyond copying\n",
                  "save() held training for", held, 100 * std::max(0.0, held - copy) / step, step);
  const std::string name = fmt::format("{} steps beside the write", stall.steps);
  if (least > 0) {
    text += fmt::format(
        "{:<26} {:.1f} ms longer, {:.1f} % of a step beyond copying ({:.1f} to {:.1f} %)\n", name,
        longer, scale::median_of(beyond), least, most);
  } else {
    // Some rounds with a save were shorter than those without: the cost is below the noise.
    text +=
        fmt::format("{:<26} no longer than the noise: {:.1f} to {:.1f} % of a step in {} rounds\n",
                    name, least, most, beyond.size());
  }
  return text;
}

}  // namespace trireme
