// SPDX-License-Identifier: Apache-2.0
// The whole configuration as typed structs, read once at the edge. Every key has its default,
// limits and description once in a table: in fields.cpp, and in the models for the model section. A
// test compares the table with these structs, with the README's table and with configs/*.yaml. Code
// below the edge takes its module's struct, never this file's reader.
//
// The functions here take the table of keys; models/config.h has them for the families of this
// program.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"
#include "runtime/config/data_source.h"
#include "runtime/config/mlperf.h"
#include "runtime/config/model_config.h"
#include "runtime/config/optimizer_config.h"
#include "runtime/config/stop_target.h"

namespace trireme {

// A number, or one to be drawn when the run starts first (with_drawn_seed).
struct Seed {
  static constexpr std::string_view clock = "clock";
  std::uint64_t value = 1234;
  bool from_clock = false;

  Seed& operator=(std::uint64_t number) { return *this = Seed{.value = number}; }
  operator std::uint64_t() const { return value; }  // NOLINT(google-explicit-constructor)
  friend bool operator==(const Seed&, const Seed&) = default;
};

struct RunConfig {
  std::string directory = "runs/run";
  Seed seed;
  double deadline_minutes = 0;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

struct DeviceConfig {
  DeviceChoice type = DeviceChoice::automatic;
  bool share = false;
  GraphMode graphs = GraphMode::off;
  bool fused_epilogues = false;
  std::string autotune = "off";  // off | a file
  friend bool operator==(const DeviceConfig&, const DeviceConfig&) = default;
};

struct DataConfig : DataSource {
  std::int64_t workers = 2;
  std::int64_t prefetch = 4;
  bool shuffle = true;
  std::int64_t shuffle_block = 1;  // samples that stay together; 0: those of a chunk
  LastBatch last_batch = LastBatch::drop;
  std::string stage;           // a directory of each host, "" = none
  double stage_gigabytes = 0;  // 0 = as much as the disk has
  // tokens
  Documents documents = Documents::joined;
  // images
  std::int64_t crop_padding = 0;
  bool flip = false;
  double mixup = 0;
  double cutmix = 0;
  // Several sources instead of `path`; the lists have a value for each, or none.
  std::vector<NamedSource> sources;
  std::vector<double> weights;  // none: by size
  double weight_temperature = 1;
  std::vector<std::int64_t> source_epochs;  // 0 = any number
  std::vector<std::int64_t> source_from;
  std::vector<std::int64_t> source_until;  // 0 = to the end
  friend bool operator==(const DataConfig&, const DataConfig&) = default;

  // Whether samples are floats, scaled when read, and not bytes: true if any source is HDF5 files
  // read in place.
  [[nodiscard]] bool float_samples() const {
    const auto numbers = [](const DataSource& source) {
      return source.kind() == SourceKind::files;
    };
    return numbers(*this) || std::ranges::any_of(sources, numbers);
  }
  [[nodiscard]] bool has_validation() const { return validates() || sources_validate(); }
  // Whether a source has a validation set.
  [[nodiscard]] bool sources_validate() const {
    return std::ranges::any_of(sources, &DataSource::validates);
  }
};

struct ParallelConfig {
  bool search = false;
  std::string hardware;   // a file, "" = none
  std::int64_t data = 0;  // 0 = auto: the rest of the rank count
  std::int64_t tensor = 1;
  std::int64_t expert = 0;            // 0 = auto: parallel.tensor
  double expert_capacity_factor = 2;  // ExpertBuild::capacity_factor
  double expert_imbalance = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;         // context-parallel ranks
  std::int64_t context_blocks = 0;  // 0 = auto: parallel.context
  ContextMode context_mode = ContextMode::automatic;
  std::int64_t zero = 0;
  std::int64_t zero_group = 0;  // data ranks; 0 = all, -1 = those of a host, until it is resolved
  bool sequence = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t chunks = 1;
  std::vector<std::int64_t> stage_layers;  // empty = balanced by declared FLOPs
  std::int64_t tensor_blocks = 0;          // 0 = auto: parallel.tensor
  std::int64_t tensor_chunks = 1;
  std::vector<std::int64_t> spatial{1, 1, 1};  // ranks along depth, height, width
  std::vector<std::int64_t> spatial_slabs;     // empty = auto: spatial
  ReducerMode reducer = ReducerMode::overlapped;
  ReduceDtype reduce_dtype = ReduceDtype::fp32;
  double bucket_megabytes = 0;  // 0 = auto (options.h)
  bool check_collectives = false;
  double timeout_seconds = 600;  // 0 = no deadline
  // Of a resolved config: MeshShape::data, all ranks that share gradients.
  [[nodiscard]] std::int64_t data_ranks() const { return data * context; }
  // Of a resolved config: ranks of the job.
  [[nodiscard]] std::int64_t ranks() const { return data_ranks() * inner_ranks() * pipeline; }
  // Blocks that a sequence is computed in (ContextSplit::blocks).
  [[nodiscard]] std::int64_t blocks() const {
    return context_blocks > 0 ? context_blocks : context;
  }
  // Of a resolved config: data ranks with different slices (MeshShape::shard); 1 without ZeRO.
  [[nodiscard]] std::int64_t shard() const {
    return zero == 0 ? 1 : zero_group > 0 ? zero_group : data_ranks();
  }
  // Consecutive data ranks that share experts out among them (MeshShape::expert).
  [[nodiscard]] std::int64_t expert_data_ranks() const {
    return std::max<std::int64_t>(expert / tensor, 1);
  }
  [[nodiscard]] bool cuts_samples() const {
    const auto many = [](std::int64_t parts) { return parts > 1; };
    return std::ranges::any_of(spatial, many) || std::ranges::any_of(spatial_slabs, many);
  }
  // Ranks that share each layer or each sample: the mesh's tensor axis.
  [[nodiscard]] std::int64_t inner_ranks() const {
    return std::accumulate(spatial.begin(), spatial.end(), tensor, std::multiplies<>());
  }
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

struct TrainConfig {
  std::int64_t steps = 1000;
  double epochs = 0;  // instead of steps, until settle_epochs; 0 = none
  std::int64_t global_batch = 32;
  std::int64_t micro_batch = 4;
  std::vector<std::string> batch_ramp;  // "STEP:SIZE" (batch_ramp.h); empty = one size
  RampForm batch_ramp_form = RampForm::stepwise;
  std::vector<std::string> context_ramp;          // "STEP:TOKENS"; empty = always model.context
  std::string initial_weights;                    // path; empty = random
  std::vector<std::string> initial_skip;          // patterns of tensors there that are not read
  std::vector<std::string> initial_reinitialise;  // patterns of parameters with fresh values
  std::vector<std::string> freeze;                // patterns of parameters (param_rules.h)
  Recompute recompute = Recompute::none;
  std::int64_t row_tile = 0;  // BuildOptions::row_tile
  double clip_norm = 1.0;     // 0 = no clipping
  LossChoice loss = LossChoice::automatic;
  double huber_delta = 1;
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  double ema_decay = 0.0;               // 0 = no average
  std::int64_t eval_every = 0;          // 0 = only at the end
  std::int64_t eval_every_samples = 0;  // instead of eval_every
  std::int64_t eval_batches = 0;        // 0 = the whole validation set
  double eval_overlap = 0;              // 0 = samples have the model's extents
  StopTarget stop_at;
  std::int64_t patience = 0;  // evaluations; 0 = no limit
  std::int64_t log_every = 10;
  std::int64_t non_finite_limit =
      1;  // steps with a NaN or infinite loss before the run stops with exit code 6
  double spike_zscore = 0;                     // 0 = no spike rule
  std::int64_t spike_window = 100;             // steps
  std::int64_t divergence_check_every = 1000;  // steps; 0 = never
  std::int64_t noise_scale_every = 0;          // steps; 0 = never
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

struct LrScheduleConfig {
  LrDecay name = LrDecay::cosine;
  std::int64_t warmup_steps = 0;
  double warmup_fraction = 0;  // instead of warmup_steps, until it is resolved; 0 = none
  double minimum_ratio = 0.1;
  double decay_fraction = 0.2;         // wsd: last part of the run that decays
  double power = 1;                    // polynomial
  std::vector<std::string> factors{};  // multistep: "STEP:FACTOR"
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
  std::string keep_best;          // a metric; "" = none
  std::int64_t failed_limit = 3;  // saves in a row before the run stops with exit code 7
  bool async = true;
  std::int64_t in_memory_every_steps = 0;  // 0 = never
  std::string memory_directory = "/dev/shm";
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

// Reports of a run besides metrics.jsonl.
struct TelemetryConfig {
  bool tensorboard = true;
  bool prometheus = false;
  std::int64_t prometheus_port = 0;  // 0 = none
  std::string prometheus_address = "127.0.0.1";
  std::int64_t histograms_every = 0;  // steps; 0 = none
  std::int64_t samples_every = 0;     // the same
  double health_minutes = 60;         // between self tests of the ranks; 0 = never
  double warning_minutes = 10;        // between two warnings of one kind; 0 = none
  // Each step, one tensor in N has its digest in the certificate, in turn; 0 = none.
  std::int64_t weight_digests = 32;
  bool tensor_digests = false;  // and behind every step that of each tensor
  std::string trace;            // steps, "10-12" or "10" (rules/rules.h); "" = none
  std::string mllog;            // a file in run.directory for MLPerf's lines; "" = none
  MlperfBenchmark mllog_benchmark = MlperfBenchmark::none;
  std::vector<std::string> mllog_submitter;  // organization, platform, division, status
  friend bool operator==(const TelemetryConfig&, const TelemetryConfig&) = default;
};

// Thread blocks of NCCL's calls; 0: NCCL's choice, or the default of the role.
struct CommConfig {
  std::int64_t min_ctas = 0;
  std::int64_t max_ctas = 0;
  std::int64_t link_ctas = 0;
  std::int64_t data_ctas = 0;
  std::int64_t tensor_ctas = 0;
  friend bool operator==(const CommConfig&, const CommConfig&) = default;
};

// Fine-tuning of low-rank factors added to linear layers (Hu et al., LoRA, 2021); all other weights
// are frozen.
struct LoraConfig {
  std::int64_t rank = 0;  // 0: every weight is trained
  double alpha = 16;      // the factors' product is multiplied by scale()
  bool rslora = false;    // by alpha / sqrt(rank) (Kalajdzievski, 2023)
  double dropout = 0;     // of the factors' input
  std::vector<std::string> targets = {"qkv", "output", "expand", "contract"};
  std::vector<std::string> modules_to_save;  // patterns of parameters trained whole beside them
  // alpha / rank, or alpha / sqrt(rank).
  [[nodiscard]] double scale() const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

struct Config {
  RunConfig run;
  DeviceConfig device;
  Precision precision = Precision::fp32;
  Fp8Recipe fp8_recipe = Fp8Recipe::tensor;
  Reproducibility reproducibility = Reproducibility::run;
  ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  CommConfig comm;
  TrainConfig train;
  LoraConfig lora;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  LossScaleConfig loss_scale;
  CheckpointConfig checkpoint;
  TelemetryConfig telemetry;
  friend bool operator==(const Config&, const Config&) = default;
};

// Facts about the place of the run, for the cross-checks.
struct Environment {
  int ranks = 1;
  bool cuda_in_build = false;
  int gpus = 0;  // that this rank sees
  bool native_bf16 = false;
  int capability = 0;  // compute capability of the first GPU, 90 for 9.0; 0: not known
  // Number of each rank's host; empty: not known.
  std::vector<int> hosts{};
  std::int64_t steps_done = 0;  // of the run that resumes: earlier sizes of its batch are past
};

// The origin of each value, for messages of rules that run after reading.
struct Provenance {
  std::string file;  // "" when there was none
  std::map<std::string, std::string, std::less<>>
      places;  // key -> "a.yaml:14: train.steps" | "--set train.steps=3"
  std::set<std::string, std::less<>> overridden;  // keys that --set has set
  // Which hand set a key last: 0 the file that all others are based on, and so on to --set.
  std::map<std::string, int, std::less<>> hands;
  // Ignored keys of a file, made meaningless by a later source, one notice each.
  std::vector<std::string> notices;

  // The place of `key` as messages begin with it; file and key for a default, the key alone without
  // a file.
  [[nodiscard]] std::string describe(std::string_view key) const;
};

namespace config {
class KeyTable;
}

// The config.yaml of the run that contains the weights `path`: a run's directory, its weights, or
// its checkpoints. "" outside of runs.
[[nodiscard]] std::string config_of_weights(const std::string& path);

// Reads `path`, after the file in its `base` (base_files.h), then applies `overrides`
// ("train.steps=50") in order; a list is replaced as a whole. A relative path of an input (data,
// hardware, initial weights) that does not exist in the current directory is taken from beside the
// config file if it exists there. If train.initial_weights belongs to a run, missing keys of the
// model section come from that run's config.yaml. Raises ExitCode::config with "file:line: key:
// value ...; allowed ...; fix ..." for any error in a single key. `where`, if given, receives the
// place of every set key. Keys that an override, or a file on its base, has made meaningless are
// ignored with a line in the log; keys of earlier versions are read, also with a line.
[[nodiscard]] Config load_config(const config::KeyTable& keys, const std::string& path,
                                 const std::vector<std::string>& overrides, Provenance* where);
// The same from text; messages call it `name`. Paths stay as written, and notices stay in `where`.
[[nodiscard]] Config parse_config(const config::KeyTable& keys, const std::string& text,
                                  const std::string& name,
                                  const std::vector<std::string>& overrides, Provenance* where);

// The purpose of the config: commands that do not train skip the training rules.
enum class Purpose : std::uint8_t { train, evaluate, generate };

// Rules that span keys (divisibility, combinations, limits of the model), before any allocation:
// the model is declared without memory and queried. Returns the config with every `auto` resolved
// (parallel.data, precision, device.type). Raises ExitCode::config naming the keys (with file:line
// if `where` has them), the values and valid ones.
[[nodiscard]] Config resolve_config(const config::KeyTable& keys, Config config,
                                    const Environment& environment, const Provenance* where,
                                    Purpose purpose);

// The same with every path absolute, for use from another directory.
[[nodiscard]] Config with_absolute_paths(Config config);

// The resolved config as YAML that parse_config reads back to an equal Config, without keys that
// mean nothing with its model, optimizer and device. With `where`, a comment after each set value
// gives its file and line, or option.
[[nodiscard]] std::string to_yaml(const config::KeyTable& keys, const Config& config,
                                  const Provenance* where = nullptr);
// The requested config, before resolve_config: the keys that file and command line have set, with
// run.directory, as YAML that load_config reads back to an equal Config from any directory.
[[nodiscard]] std::string requested_yaml(const config::KeyTable& keys, const Config& config,
                                         const Provenance& where);

using KeyValues = std::vector<std::pair<std::string, std::string>>;
// Every key with its value as the file would have it, in the table's order.
[[nodiscard]] KeyValues values_by_key(const config::KeyTable& keys, const Config& config);
// Values written by values_by_key, perhaps in an earlier version, under the current keys; without
// removed keys.
[[nodiscard]] KeyValues under_current_keys(const config::KeyTable& keys, const KeyValues& values);

// One row per key, for --help, the README and tests.
struct FieldDoc {
  std::string key;            // "train.steps"
  std::string type;           // "integer", "number", "boolean", "text", "list of numbers", ...
  std::string default_value;  // as YAML
  std::string allowed;        // "cpu | cuda | auto", ">= 1", "" when free
  std::string description;
};
[[nodiscard]] std::vector<FieldDoc> field_docs(const config::KeyTable& keys);
// The same as the Markdown table in README.md.
[[nodiscard]] std::string field_table_markdown(const config::KeyTable& keys);

}  // namespace trireme
