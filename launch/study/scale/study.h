// SPDX-License-Identifier: Apache-2.0
// The plan of a scaling study: points (mode, ranks, layout), each repeated. Starts nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"
#include "runtime/nn/spatial.h"

namespace trireme::scale {

enum class Mode : std::uint8_t {
  weak,       // the global batch grows with the ranks in any layout: each rank keeps its work
  strong,     // the global batch is constant
  fixed_loss  // it grows as in weak; measured is the time until a loss is reached
};
[[nodiscard]] std::string_view name_of(Mode mode);

struct StudyOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<int> ranks;
  std::string mode = "weak";  // weak | strong | both | fixed-loss
  // For fixed-loss: time counts until the mean training loss of `loss_window` steps reaches this.
  double target_loss = 0;
  std::int64_t loss_window = 10;
  // For parse_layouts(), or "auto": the planner's fastest on parallel.hardware if the config names
  // it, else data parallel.
  std::string layouts = "auto";
  int repeats = 3;
  std::int64_t steps = 30;
  std::int64_t warmup = 10;  // first steps of each run, included in `steps` but not measured
  // Order of the runs of each repeat: "drawn" at random per repeat, so that a machine that warms up
  // or gets busier does not bias single points, or as given.
  std::string order = "drawn";
};

// FLOPs of one step on all ranks together.
struct PointWork {
  // 6 N per token or image, N being the parameters of matrix products (PaLM: Chowdhery et al.,
  // 2022, appendix B); the same plus attention and convolutions: three times the forward.
  double six_n = 0, model = 0;
  // Including the forward work that train.recompute repeats.
  double hardware = 0;
  double peak = 0;                    // FLOP/s by parallel.hardware; 0: no file is set
  std::optional<double> predicted{};  // seconds per step, by the same file
};

struct StudyLayout {
  MeshShape mesh{};                 // tensor: the ranks of spatial parallelism, too
  SpatialExtents spatial{1, 1, 1};  // parallel.spatial
  friend bool operator==(const StudyLayout&, const StudyLayout&) = default;
  // A missing data axis (0) takes the ranks that the others leave. Whether there are `ranks` then.
  [[nodiscard]] bool fit(int ranks);
  // parallel.tensor.
  [[nodiscard]] int tensor() const {
    return SpatialSplit{spatial}.rank_count() > 1 ? 1 : mesh.tensor;
  }
  // "data=4:tensor=2", "data=2:spatial=2x1x1", "data=2:context=4"; without axes of one rank other
  // than data.
  [[nodiscard]] std::string text() const;
};

// One point of a curve.
struct Point {
  Mode mode = Mode::weak;
  MeshShape mesh{};
  SpatialExtents spatial{1, 1, 1};
  std::int64_t global_batch = 0;        // samples
  std::vector<std::string> settings{};  // "key=value", of a layout that the planner chose
  PointWork work{};
  [[nodiscard]] int ranks() const { return mesh.size(); }
  [[nodiscard]] StudyLayout axes() const { return {mesh, spatial}; }
  [[nodiscard]] std::string layout() const { return axes().text(); }
  // "weak-8-data=4:tensor=2".
  [[nodiscard]] std::string name() const;
};

struct Study {
  StudyOptions options;
  ModelTraits traits;
  // By mode, then by ranks; the first of a mode is its baseline.
  std::vector<Point> points;
  std::string launcher{};     // "mpirun --host a:4,b:4"; for the reports
  std::string hardware{};     // parallel.hardware; "": none
  std::string environment{};  // environment.json of a successful run, for the reports
  // Identifies the study in a directory.
  std::vector<std::pair<std::string, std::string>> identity;

  // Arguments of `trireme` for a run of `point` into `directory`.
  [[nodiscard]] std::vector<std::string> arguments(const Point& point,
                                                   const std::string& directory) const;
};

// Axes of a layout joined by colons, layouts by commas: "data=4,data=2:tensor=2,spatial=2x2x1".
// Raises ExitCode::config.
[[nodiscard]] std::vector<StudyLayout> parse_layouts(std::string_view text);
// Rank counts joined by commas, ascending. Raises ExitCode::config.
[[nodiscard]] std::vector<int> parse_ranks(std::string_view text);

// The work of a step of a resolved config. Raises ExitCode::config for an invalid hardware file.
[[nodiscard]] PointWork work_of(const Config& config);

// The resolved config of a point's runs, as in the job except for values that depend on its hosts.
// Raises ExitCode::config.
[[nodiscard]] Config config_of(const StudyOptions& options, const Point& point);

// Raises ExitCode::config for contradictory options or a config that a point refuses, before
// anything starts.
[[nodiscard]] Study plan_study(const StudyOptions& options);

}  // namespace trireme::scale
