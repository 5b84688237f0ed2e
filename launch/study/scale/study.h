// SPDX-License-Identifier: Apache-2.0
// What a scaling study is to run: points (mode, ranks, layout), each several times. Nothing here
// starts anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/study/scale/work.h"
#include "models/registry.h"
#include "runtime/comm/process_mesh.h"

namespace trireme::scale {

enum class Mode : std::uint8_t {
  weak,       // the global batch grows with the ranks, whatever they share out: each keeps its work
  strong,     // it stays
  fixed_loss  // it grows as with weak; what counts is the time until a loss is reached
};
[[nodiscard]] std::string_view name_of(Mode mode);

struct StudyOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<int> ranks;
  std::string mode = "weak";  // weak | strong | both | fixed-loss
  // With fixed-loss: the training loss, a mean over so many steps, that ends the time that counts.
  double target_loss = 0;
  std::int64_t loss_window = 10;
  // As parse_layouts() takes them, or "auto": the planner's fastest on parallel.hardware, where the
  // config names that, else data parallel.
  std::string layouts = "auto";
  int repeats = 3;
  std::int64_t steps = 30;
  std::int64_t warmup = 10;  // of them, at the start of each run, which do not count
  // Of the runs of each repeat: drawn anew for each, so that a machine that warms up or gets busier
  // weighs on no point alone, or as given.
  std::string order = "drawn";
};

// One place on a curve.
struct Point {
  Mode mode = Mode::weak;
  MeshShape mesh{};
  std::int64_t global_batch = 0;        // samples
  std::vector<std::string> settings{};  // "key=value", of a layout that the planner chose
  PointWork work{};
  [[nodiscard]] int ranks() const { return mesh.size(); }
  // "data=4:tensor=2"; axes of one rank are left out, but for data.
  [[nodiscard]] std::string layout() const;
  // "weak-8-data=4:tensor=2".
  [[nodiscard]] std::string name() const;
};

struct Study {
  StudyOptions options;
  ModelTraits traits;
  // By mode, then by ranks: the first of a mode is what the others are compared with.
  std::vector<Point> points;
  std::string launcher{};     // "mpirun --host a:4,b:4"; for the reports
  std::string hardware{};     // parallel.hardware; "": none
  std::string environment{};  // environment.json of a run that ended well, for the reports
  // What makes it this study, for a directory that holds another one.
  std::vector<std::pair<std::string, std::string>> identity;

  // Arguments of `trireme` for a run of `point` into `directory`.
  [[nodiscard]] std::vector<std::string> arguments(const Point& point,
                                                   const std::string& directory) const;
};

// Axes of a layout joined by colons, layouts by commas: "data=4,data=2:tensor=2,pipeline=4". Data
// that is not given (0) is what the other axes leave. Raises ExitCode::config.
[[nodiscard]] std::vector<MeshShape> parse_layouts(std::string_view text);
// Rank counts joined by commas, ascending. Raises ExitCode::config.
[[nodiscard]] std::vector<int> parse_ranks(std::string_view text);

// The resolved config of a point's runs, as the job will find it but for what only its hosts can
// tell. Raises ExitCode::config.
[[nodiscard]] Config config_of(const StudyOptions& options, const Point& point);

// Raises ExitCode::config for options that contradict each other and for a config that one of the
// points refuses, before anything is started.
[[nodiscard]] Study plan_study(const StudyOptions& options);

}  // namespace trireme::scale
