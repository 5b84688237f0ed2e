// SPDX-License-Identifier: Apache-2.0
// The whole configuration as typed structs, read once at the edge. Every key, its default, its
// limits and its description stand once in the table of fields.cpp; a test compares that table with
// these structs, with the README's table and with configs/*.yaml. Code below the edge takes the
// struct of its own room, never this file's reader.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct RunConfig {
  std::string directory = "runs/run";
  std::uint64_t seed = 1234;
  double deadline_minutes = 0;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

struct DeviceConfig {
  std::string type = "auto";  // cpu | cuda | auto
  bool share = false;
  std::string graphs = "off";           // off | layer | step
  std::string fused_epilogues = "off";  // off | on
  std::string autotune = "off";         // off | a file
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

struct ModelConfig {
  std::string family = "gpt2";  // gpt2 | resnet
  // gpt2
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  double dropout = 0.0;
  double init_deviation = 0.02;
  std::string position_init = "normal";  // normal | sinusoidal
  // resnet
  std::string block = "basic";  // basic | bottleneck
  std::vector<std::int64_t> stages = {2, 2, 2, 2};
  std::int64_t width = 64;
  std::string stem = "imagenet";  // imagenet | small
  std::int64_t image_size = 224;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct DataConfig {
  std::string path;
  std::string validation_path;
  std::int64_t workers = 2;
  std::int64_t prefetch = 4;
  bool shuffle = true;
  std::string last_batch = "drop";  // drop | pad
  // images
  std::int64_t crop_padding = 0;
  bool flip = false;
  std::vector<double> mean;
  std::vector<double> deviation;
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

struct ParallelConfig {
  bool search = false;
  std::string hardware;   // a file, "" = none
  std::int64_t data = 0;  // 0 = auto: what remains of the rank count
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t zero = 0;
  bool sequence = false;
  std::string schedule = "1f1b";
  std::int64_t chunks = 1;
  std::vector<std::int64_t> stage_layers;  // empty = balanced by declared FLOPs
  std::int64_t virtual_tensor = 0;         // 0 = auto: parallel.tensor
  std::string reducer = "overlapped";      // overlapped | inline
  double bucket_megabytes = 4;
  bool check_collectives = false;
  double watch_seconds = 600;  // 0 = no deadline
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t global_batch = 32;
  std::int64_t micro_batch = 4;
  std::string initial_weights;  // path; empty = random
  std::string recompute = "none";
  double clip_norm = 1.0;  // 0 = no clipping
  double label_smoothing = 0.0;
  double ema_decay = 0.0;         // 0 = no average
  std::int64_t eval_every = 0;    // 0 = only at the end
  std::int64_t eval_batches = 0;  // 0 = the whole validation set
  std::int64_t log_every = 10;
  std::int64_t non_finite_limit =
      1;  // steps with a NaN or infinite loss before the run stops with exit code 6
  double spike_zscore = 0;                     // 0 = no spike rule
  std::int64_t spike_window = 100;             // steps
  std::int64_t divergence_check_every = 1000;  // steps; 0 = never
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

struct OptimizerConfig {
  std::string name = "adamw";  // adamw | sgd
  double learning_rate = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

struct LrScheduleConfig {
  std::string name = "cosine";  // constant | linear | cosine | wsd
  std::int64_t warmup_steps = 0;
  double minimum_ratio = 0.1;
  double decay_fraction = 0.2;  // wsd: last part of the run that decays
  friend bool operator==(const LrScheduleConfig&, const LrScheduleConfig&) = default;
};

// precision: fp16 multiplies the loss's gradient by a scale that follows the overflows.
struct LossScaleConfig {
  double initial = 65536;
  std::int64_t growth_interval = 2000;  // steps without overflow after which it grows
  double factor = 2;                    // of growth, and of the fall after an overflow
  double minimum = 1;
  friend bool operator==(const LossScaleConfig&, const LossScaleConfig&) = default;
};

struct CheckpointConfig {
  std::int64_t every_steps = 0;
  double every_minutes = 0;
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;    // steps; 0 = none
  std::int64_t failed_limit = 3;  // saves in a row before the run stops with exit code 7
  bool async = true;
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

// 0 = NCCL's choice.
struct CommConfig {
  std::int64_t min_ctas = 0;
  std::int64_t max_ctas = 0;
  friend bool operator==(const CommConfig&, const CommConfig&) = default;
};

struct TelemetryConfig {
  std::string trace;
  bool tensorboard = false;
  bool prometheus = false;
  friend bool operator==(const TelemetryConfig&, const TelemetryConfig&) = default;
};

struct Config {
  RunConfig run;
  DeviceConfig device;
  std::string precision = "fp32";       // auto | fp32 | tf32 | bf16 | fp16 | fp8
  std::string reproducibility = "run";  // fast | run | layout
  ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  CommConfig comm;
  TrainConfig train;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  LossScaleConfig loss_scale;
  CheckpointConfig checkpoint;
  TelemetryConfig telemetry;
  friend bool operator==(const Config&, const Config&) = default;
};

// What the cross-checks need to know of the place where the run will happen.
struct Environment {
  int ranks = 1;
  bool cuda_in_build = false;
  int gpus = 0;  // that this rank sees
  bool native_bf16 = false;
};

// Where each value came from, for messages of rules that run after reading.
struct Provenance {
  std::string file;  // "" when there was none
  std::map<std::string, std::string, std::less<>>
      places;  // key -> "a.yaml:14: train.steps" | "--set train.steps=3"
  std::set<std::string, std::less<>> overridden;  // keys that --set has set
  // Keys of the file that an override of another left without a meaning, and what became of them.
  std::vector<std::string> notices;

  // The place of `key` as messages begin with it; file and key for a default, the key alone without
  // a file.
  [[nodiscard]] std::string describe(std::string_view key) const;
};

// Reads `path`, then applies `overrides` ("train.steps=50"), in order. A relative path of what a
// run reads (data, hardware, initial weights) that does not exist in the current directory but does
// beside the config file is taken from there.
// Raises ExitCode::config with "file:line: key: value ...; allowed ...; fix ..." for anything wrong
// with a single key. `where`, when given, receives the place of every key that was set. Keys of the
// file that an override has left without a meaning are ignored, each with a line in the log.
[[nodiscard]] Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                                 Provenance* where = nullptr);
// The same from text; `name` stands for the file in messages. Paths stay as written, and notices
// stay in `where`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& name,
                                  const std::vector<std::string>& overrides,
                                  Provenance* where = nullptr);

// What the config is about to be used for: commands that do not train are not held to the training
// rules.
enum class Purpose : std::uint8_t { train, evaluate, generate };

// Rules that span keys (divisibility, combinations, what this build supports), before anything is
// allocated. Returns the config with every `auto` resolved (parallel.data, precision, device.type).
// Raises ExitCode::config naming the keys (with file:line when `where` knows them), the values and
// values that would work.
[[nodiscard]] Config resolve_config(Config config, const Environment& environment,
                                    const Provenance* where = nullptr,
                                    Purpose purpose = Purpose::train);

// The same with every path absolute, for what is read again from elsewhere.
[[nodiscard]] Config with_absolute_paths(Config config);

// The resolved config as YAML that parse_config reads back to an equal Config.
[[nodiscard]] std::string to_yaml(const Config& config);
// What was asked for, not what resolve_config makes of it: the keys that file and command line have
// set, with run.directory, as YAML that load_config reads back to an equal Config from any
// directory.
[[nodiscard]] std::string requested_yaml(const Config& config, const Provenance& where);
// Every key with its value as the file would have it, in the table's order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> values_by_key(const Config& config);

// One row per key, for --help, the README and tests.
struct FieldDoc {
  std::string key;            // "train.steps"
  std::string type;           // "integer", "number", "boolean", "text", "list of numbers", ...
  std::string default_value;  // as YAML
  std::string allowed;        // "cpu | cuda | auto", ">= 1", "" when free
  std::string description;
};
[[nodiscard]] std::vector<FieldDoc> field_docs();
// The same as the Markdown table that stands in README.md.
[[nodiscard]] std::string field_table_markdown();

}  // namespace trireme
