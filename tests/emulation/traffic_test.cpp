// SPDX-License-Identifier: Apache-2.0
// Declared reads and writes of operations (ops/common/traffic.h) against the loads and stores of
// their kernels: steps of small models on an emulated GPU with observed kernels. Counts the bytes
// that each kernel touches, once each, without scratch memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <map>

#include "launch/bench/kernels/step_count.h"
#include "launch/bench/model/measure.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "tests/emulation/order/accesses.h"

namespace trireme {
namespace {

using emulated::order::device_memory;

constexpr std::size_t scratch_bytes = std::size_t{16} << 20, arrival_counters = 1024;

// For each byte of device memory the last kernel that read it and the last that wrote it; untouched
// pages are zero.
class Marks {
 public:
  explicit Marks(std::size_t bytes)
      : bytes_(bytes),
        marks_(static_cast<std::uint32_t*>(
            mmap(nullptr, bytes * sizeof(std::uint32_t), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Marks() { munmap(marks_, bytes_ * sizeof(std::uint32_t)); }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  // Whether `kernel` has not been there.
  bool visit(std::size_t at, std::uint32_t kernel) {
    return std::exchange(marks_[at], kernel) != kernel;
  }

 private:
  std::size_t bytes_;
  std::uint32_t* marks_;
};

struct Bytes {
  double read = 0, written = 0;
};

// Between its making and its end.
struct Observation {
  explicit Observation(CudaStream& stream)
      : scratch(reinterpret_cast<std::uintptr_t>(stream.scratch(scratch_bytes))),
        workspace(reinterpret_cast<std::uintptr_t>(stream.workspace())),
        arrivals(reinterpret_cast<std::uintptr_t>(stream.arrivals(arrival_counters))),
        read(device_memory.bytes),
        written(device_memory.bytes) {
    current = this;
    emulated::order::access_observer = [](std::uint32_t kernel, std::uintptr_t address,
                                          std::size_t bytes, bool writes) {
      current->see(kernel, address, bytes, writes);
    };
  }
  ~Observation() { emulated::order::access_observer = nullptr; }

  void see(std::uint32_t kernel, std::uintptr_t address, std::size_t bytes, bool writes) {
    const WorkLog* const log = WorkLog::current();
    const bool own = address - scratch < scratch_bytes ||
                     address - workspace < CudaStream::workspace_bytes ||
                     address - arrivals < arrival_counters * sizeof(unsigned) ||
                     address - device_memory.first >= device_memory.bytes;
    if (own || log == nullptr || !log->inside_operation()) return;
    Bytes& sum = by_operation[log->operations().back().name];
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t at = address - device_memory.first + i;
      if (writes) {
        sum.written += written.visit(at, kernel) ? 1 : 0;
      } else {
        sum.read += read.visit(at, kernel) ? 1 : 0;
      }
    }
  }

  static inline Observation* current = nullptr;
  std::uintptr_t scratch, workspace, arrivals;
  Marks read, written;
  std::map<std::string, Bytes> by_operation;
};

// Allowed relative deviation of measured from declared bytes, below and above.
struct Tolerance {
  double below = 0, above = 0;
  const char* why = "";
};
const std::map<std::string, Tolerance> tolerances{
    {"embedding_forward", {.below = 0.7, .why = "rows of tokens that come again are read once"}},
    {"embedding_backward", {.below = 0.7, .why = "rows of tokens that come again are added once"}},
    {"augment", {.below = 0.2, .why = "crops reach over the edge, where nothing is read"}},
    {"convolution_forward", {.below = 0.2, .why = "a stride beyond the window skips inputs"}},
    {"convolution_backward_weight",
     {.below = 0.1, .above = 0.1, .why = "declared as cuDNN and our addition do it"}},
    {"linear_forward", {.below = 0.01, .why = "an f32 bias is rounded into scratch memory"}},
    {"adamw", {.below = 0.01, .why = "of a run's entry in the table not all is for this one"}},
    {"lion", {.below = 0.01, .why = "likewise"}},
    {"sgd", {.below = 0.01, .why = "likewise"}},
    {"lamb_direction", {.below = 0.01, .why = "likewise"}},
    {"lamb", {.below = 0.01, .why = "likewise"}},
    {"lars", {.below = 0.01, .why = "likewise"}},
    {"muon_direction", {.below = 0.01, .why = "likewise"}},
    {"muon", {.below = 0.01, .why = "likewise"}},
    {"sum_squares", {.below = 0.01, .why = "likewise"}},
    {"sum_squares_exact", {.below = 0.01, .why = "likewise"}},
    {"route_backward", {.above = 0.5, .why = "it reads again what it has written"}},
    {"guard_loss", {.below = 0.75, .why = "it reads two of the seven columns of sums"}},
    {"clip_scale", {.below = 0.75, .why = "likewise"}},
    {"newton_schulz_gram", {.above = 0.01, .why = "the trace is read apart"}},
};
// Muon multiplies a matrix by itself: both operands are one.
const std::map<std::string, Tolerance> with_muon{{"linear_forward", {.below = 0.25}},
                                                 {"linear_backward_weight", {.below = 0.25}}};
// A kernel accesses only some members of scalar structs: bytes per call.
constexpr double scalars = 64;

Tolerance tolerance_of(const std::string& name, bool muon) {
  if (const auto found = with_muon.find(name); muon && found != with_muon.end())
    return found->second;
  const auto found = tolerances.find(name);
  return found == tolerances.end() ? Tolerance{} : found->second;
}

struct Declared : Bytes {
  int calls = 0;
};

void expect_between(const std::string& what, double observed, double declared, double unread,
                    const Tolerance& tolerance) {
  EXPECT_LE(observed, declared * (1 + tolerance.above)) << what;
  EXPECT_GE(observed, declared * (1 - tolerance.below) - unread) << what;
}

void observe_step(const std::string& file, const std::vector<std::string>& overrides) {
  Provenance where;
  const Config given = load_config("configs/" + file, overrides, &where);
  const Config config = model_bench::on_one_rank(
      given, {.ranks = 1, .cuda_in_build = true, .gpus = 1, .native_bf16 = true}, where);
  const std::shared_ptr<Device> device = Device::create(DeviceType::cuda);
  Engine all(single_resources(device), config, Purpose::train,
             {.batches = model_bench::synthetic_batches});
  all.begin();
  StepEngine& engine = all.training().state->engine;
  BatchSource& batches = *all.training().batches;
  engine.run(0, batches);
  static_cast<void>(engine.read(0));
  WorkLog log;
  Observation observation(CudaStream::of(*all.session().streams.compute));
  engine.run(1, batches);
  static_cast<void>(engine.read(1));
  std::map<std::string, Declared> declared;
  for (const WorkOperation& each : log.operations()) {
    declared[each.name].read += each.traffic.read;
    declared[each.name].written += each.traffic.written;
    ++declared[each.name].calls;
  }
  // In 16 bits declared as for cuDNN, which the emulation lacks; the forward pass so with sinks.
  const bool wide = config.precision == Precision::fp32;
  if (!wide) declared.erase("attention_backward");
  if (!wide && config.model.family == "gpt_oss") declared.erase("attention_forward");
  for (const auto& [name, bytes] : declared) {
    const Bytes& seen = observation.by_operation[name];
    const Tolerance tolerance = tolerance_of(name, config.optimizer.name == OptimizerKind::muon);
    const double unread = scalars * bytes.calls;
    expect_between(name + " reads", seen.read, bytes.read, unread, tolerance);
    expect_between(name + " writes", seen.written, bytes.written, unread, tolerance);
  }
}

const std::vector<std::string> small_gpt{"model.layers=1", "model.hidden=32", "model.heads=2",
                                         "model.context=24", "model.dropout=0.1"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::string& one) {
  overrides.push_back(one);
  return overrides;
}

TEST(Traffic, OfGptIsAsDeclared) {
  observe_step("gpt_tiny.yaml", with(small_gpt, "precision=fp32"));
}

TEST(Traffic, OfGptInBf16IsAsDeclared) {
  observe_step("gpt_tiny.yaml", with(small_gpt, "precision=bf16"));
}

TEST(Traffic, OfGptInFp8IsAsDeclared) {
  for (const char* const dropout : {"model.dropout=0.1", "model.dropout=0"})
    observe_step("gpt_tiny.yaml", with(with(small_gpt, "precision=fp8"), dropout));
}

// In whole blocks of 128.
TEST(Traffic, OfGptInBlockwiseFp8IsAsDeclared) {
  observe_step("gpt_tiny.yaml",
               {"model.layers=1", "model.hidden=128", "model.heads=2", "model.context=128",
                "model.dropout=0", "train.micro_batch=1", "precision=fp8", "fp8_recipe=blockwise"});
}

TEST(Traffic, OfLlamaIsAsDeclared) {
  for (const char* const precision : {"precision=fp32", "precision=bf16", "precision=fp8"}) {
    observe_step("llama_tiny.yaml",
                 {"model.layers=1", "model.hidden=32", "model.heads=4", "model.kv_heads=2",
                  "model.intermediate=48", "model.context=24", precision});
  }
}

TEST(Traffic, OfGptOssIsAsDeclared) {
  for (const char* const precision : {"precision=fp32", "precision=bf16"}) {
    observe_step("gpt_oss_20b.yaml",
                 {"model.layers=2", "model.hidden=32", "model.heads=4", "model.kv_heads=2",
                  "model.head_size=8", "model.intermediate=48", "model.experts=4",
                  "model.experts_per_token=2", "model.context=24", "model.vocabulary=64",
                  "model.window=9", "train.global_batch=2", "train.recompute=none", precision});
  }
}

TEST(Traffic, OfNormalisedQueriesAndKeysIsAsDeclared) {
  for (const char* const norm : {"model.qk_norm=true", "model.qk_norm_whole=true"}) {
    observe_step("llama_tiny.yaml",
                 {"model.layers=1", "model.hidden=32", "model.heads=4", "model.kv_heads=2",
                  "model.intermediate=48", "model.context=24", "precision=bf16", norm});
  }
}

// Whole tiles of rows: forced balanced routing gives every expert as many.
TEST(Traffic, OfExpertsIsAsDeclared) {
  for (const char* const precision : {"precision=fp32", "precision=bf16"}) {
    observe_step("moe_tiny.yaml",
                 {"model.layers=1", "model.hidden=32", "model.heads=4", "model.kv_heads=2",
                  "model.experts=4", "model.expert_intermediate=16", "model.context=32",
                  "model.shared_intermediate=16", "model.router_z_loss=0.001",
                  "model.router_balanced=true", "parallel.zero=0", precision});
  }
}

TEST(Traffic, OfResNetIsAsDeclared) {
  observe_step("resnet_fashion.yaml",
               {"model.width=8", "train.micro_batch=2", "train.global_batch=4", "precision=fp32"});
}

TEST(Traffic, OfUNetIsAsDeclared) {
  const std::vector<std::string> small{"model.depth=8", "model.image_size=8", "model.levels=2",
                                       "model.filters=4", "precision=fp32"};
  observe_step("unet3d.yaml", small);
  observe_step("unet3d.yaml", with(with(with(small, "model.norm=group"), "model.norm_groups=2"),
                                   "train.loss=auto"));
}

TEST(Traffic, OfVitIsAsDeclared) {
  observe_step("vit_fashion.yaml",
               {"model.layers=1", "model.hidden=32", "model.heads=2", "model.intermediate=48",
                "train.micro_batch=2", "train.global_batch=4", "precision=fp32"});
}

TEST(Traffic, OfBertIsAsDeclared) {
  observe_step("bert_tiny.yaml", {"model.layers=1", "model.hidden=32", "model.heads=2",
                                  "model.context=24", "precision=fp32"});
}

}  // namespace
}  // namespace trireme
