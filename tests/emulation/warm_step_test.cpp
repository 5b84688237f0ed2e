// SPDX-License-Identifier: Apache-2.0
// The host's requests in a warm step: no memory, and no lock in its operations, including the
// libraries' plans. On a merely described GPU, since the emulated one allocates.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "launch/bench/model/measure.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "runtime/device/dry/dry_device.h"
#include "runtime/ops/common/plan_table.h"
#include "runtime/ops/gemm/cublaslt_cuda.h"
#include "runtime/ops/gemm/gemm_tuning.h"

namespace {

// Of this thread.
thread_local std::int64_t news = 0, locks = 0;

}  // namespace

extern "C" {
// The linker redirects every operator new of our objects here (--wrap).
void* __real__Znwm(std::size_t size);
void* __wrap__Znwm(std::size_t size) {
  ++news;
  return __real__Znwm(size);
}
// Also counts locks of std::mutex, in every library.
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return lock(mutex);
}
}

namespace trireme {
namespace {

struct Asked {
  std::int64_t allocations = 0, locks = 0;
  friend bool operator==(const Asked&, const Asked&) = default;
};

template <typename Action>
Asked asked_by(Action&& action) {
  const Asked before{news, locks};
  action();
  return {news - before.allocations, locks - before.locks};
}

std::string text_of(const Asked& asked) {
  return fmt::format("{} allocations, {} locks", asked.allocations, asked.locks);
}

// The requests of the first and the third step.
std::pair<Asked, Asked> first_and_third_step(const std::string& file,
                                             std::vector<std::string> overrides) {
  Provenance where;
  overrides.emplace_back("device.type=cuda");
  Config given = load_config("configs/" + file, overrides, &where);
  const Config config =
      resolve_config(std::move(given),
                     {.ranks = 1, .cuda_in_build = true, .gpus = 1, .native_bf16 = true}, &where);
  Engine all(single_resources(make_counting_device(DeviceType::cuda)), config, Purpose::train,
             {.batches = model_bench::synthetic_batches});
  all.begin();
  BatchSource& batches = *all.training().batches;
  StepEngine& engine = all.training().state->engine;
  const Asked first = asked_by([&] { engine.run(0, batches); });
  engine.run(1, batches);
  return {first, asked_by([&] { engine.run(2, batches); })};
}

void expect_warm_steps_ask_for_nothing(const std::string& file, int micro_batches,
                                       const std::vector<std::string>& overrides) {
  const auto [first, third] = first_and_third_step(file, overrides);

  EXPECT_GT(first.allocations, 0) << "nothing is counted";
  EXPECT_EQ(third.allocations, 0);
  // Each pass of a micro-batch notes its activity for watchdogs; no operation locks.
  constexpr std::int64_t notes = 5;
  EXPECT_LE(third.locks, notes * micro_batches) << text_of(third);
}

TEST(WarmStep, OfGptAsksForNoMemoryAndNoOperationForALock) {
  expect_warm_steps_ask_for_nothing(
      "gpt_tiny.yaml", 4,
      {"precision=bf16", "parallel.zero=0", "train.global_batch=8", "train.micro_batch=2"});
}

TEST(WarmStep, OfAResnetAsksForNoMemoryAndNoOperationForALock) {
  expect_warm_steps_ask_for_nothing(
      "resnet_fashion.yaml", 4,
      {"precision=bf16", "parallel.zero=0", "train.global_batch=32", "train.micro_batch=8"});
}

// The emulated library replaces the real one; the plan look-up before it is the engine's.
TEST(WarmProduct, FindsItsPlanWithoutMemoryAndLocks) {
  const auto device = Device::create(DeviceType::cuda);
  const auto stream = device->make_stream(StreamKind::compute);
  stream->set_policy({.fused_epilogues = true});
  const ops::cuda::Gemm gemm{.m = 16,
                             .n = 32,
                             .k = 48,
                             .transpose_a = true,
                             .type_a = DType::bf16,
                             .type_b = DType::bf16,
                             .output = DType::bf16};
  const auto look = [&] { static_cast<void>(ops::cuda::fuses(*stream, gemm)); };

  const Asked first = asked_by(look);

  EXPECT_GT(first.allocations, 0);
  EXPECT_GT(first.locks, 0);
  EXPECT_EQ(asked_by(look), Asked{});
  ops::use_gemm_choices(ops::no_gemm_choices(*device), "");
  EXPECT_GT(asked_by(look).locks, 0) << "other choices, and the plan of before them";
}

struct Number {
  std::int64_t value = 0;
  friend bool operator==(const Number&, const Number&) = default;
};
std::size_t plan_hash(const Number& number) {
  return static_cast<std::size_t>(number.value % 7);  // many that meet
}

TEST(PlanTable, KeepsEveryPlanWhereItIsWhileItGrows) {
  ops::PlanTable<Number, std::int64_t> table;
  EXPECT_EQ(table.find({1}), nullptr);

  const std::int64_t* const first = &table.insert({0}, std::make_unique<std::int64_t>(0));
  for (std::int64_t i = 1; i < 200; ++i)
    table.insert({i}, std::make_unique<std::int64_t>(10 * i));

  EXPECT_EQ(table.find({0}), first);
  for (std::int64_t i = 0; i < 200; ++i) {
    ASSERT_NE(table.find({i}), nullptr) << i;
    EXPECT_EQ(*table.find({i}), 10 * i);
  }
  EXPECT_EQ(table.find({200}), nullptr);
  EXPECT_EQ(table.insert({5}, std::make_unique<std::int64_t>(1)), 1) << "in place of what was";
  EXPECT_EQ(*table.find({5}), 1);
  table.clear();
  EXPECT_EQ(table.find({5}), nullptr);
}

}  // namespace
}  // namespace trireme
