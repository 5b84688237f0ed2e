// SPDX-License-Identifier: Apache-2.0
// Keys that have one of several named values: each an enum with the one table of its names, which
// parsing, printing, messages and the table of keys read. The rooms that do the work use the same
// types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace trireme {

template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
};

// An enum E with a table: a function names_of(E) beside it, of every value in the order in which
// messages list them.
template <typename E>
concept Choice = std::is_enum_v<E> && requires(E value) {
  names_of(value).front().name;
};

template <Choice E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  for (const Named<E>& named : names_of(value)) {
    if (named.value == value) return named.name;
  }
  return "?";
}

template <Choice E>
[[nodiscard]] constexpr std::optional<E> value_named(std::string_view name) {
  for (const Named<E>& named : names_of(E{})) {
    if (named.name == name) return named.value;
  }
  return std::nullopt;
}

// device.type. automatic: cuda when the build has it and a GPU is there.
enum class DeviceChoice : std::uint8_t { cpu, cuda, automatic };
[[nodiscard]] constexpr auto names_of(DeviceChoice /*key*/) {
  return std::to_array<Named<DeviceChoice>>({{DeviceChoice::cpu, "cpu"},
                                             {DeviceChoice::cuda, "cuda"},
                                             {DeviceChoice::automatic, "auto"}});
}

// data.documents: what a sequence of several texts is to attention and positions.
enum class Documents : std::uint8_t { joined, separate };
[[nodiscard]] constexpr auto names_of(Documents /*key*/) {
  return std::to_array<Named<Documents>>(
      {{Documents::joined, "joined"}, {Documents::separate, "separate"}});
}

// device.graphs: what is recorded as CUDA graphs once it has run, and replayed from then on.
enum class GraphMode : std::uint8_t {
  off,
  layer,  // each pass of a layer
  step    // a whole step, from the first forward to the last update; off in pipelines
};
[[nodiscard]] constexpr auto names_of(GraphMode /*key*/) {
  return std::to_array<Named<GraphMode>>(
      {{GraphMode::off, "off"}, {GraphMode::layer, "layer"}, {GraphMode::step, "step"}});
}

// precision: what matmuls compute in.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16, fp8, automatic };
[[nodiscard]] constexpr auto names_of(Precision /*key*/) {
  return std::to_array<Named<Precision>>({{Precision::automatic, "auto"},
                                          {Precision::fp32, "fp32"},
                                          {Precision::tf32, "tf32"},
                                          {Precision::bf16, "bf16"},
                                          {Precision::fp16, "fp16"},
                                          {Precision::fp8, "fp8"}});
}

// reproducibility
enum class Reproducibility : std::uint8_t {
  fast,
  run,    // the same config and layout give the same bits
  layout  // the same bits on every layout
};
[[nodiscard]] constexpr auto names_of(Reproducibility /*key*/) {
  return std::to_array<Named<Reproducibility>>({{Reproducibility::fast, "fast"},
                                                {Reproducibility::run, "run"},
                                                {Reproducibility::layout, "layout"}});
}

// data.last_batch: what happens to the samples of an epoch that do not fill a global batch.
enum class LastBatch : std::uint8_t {
  drop,  // they are left out of this epoch
  pad    // the batch is filled up with the first samples of the same epoch
};
[[nodiscard]] constexpr auto names_of(LastBatch /*key*/) {
  return std::to_array<Named<LastBatch>>({{LastBatch::drop, "drop"}, {LastBatch::pad, "pad"}});
}

// Between two points of a ramp.
enum class RampForm : std::uint8_t { stepwise, linear };
[[nodiscard]] constexpr auto names_of(RampForm /*key*/) {
  return std::to_array<Named<RampForm>>(
      {{RampForm::stepwise, "stepwise"}, {RampForm::linear, "linear"}});
}

// data.samples: what one sample of an HDF5 file is.
enum class SampleUnit : std::uint8_t {
  file,  // all of a file
  axis,  // a position along the axis N of its data sets
  group  // a group at the root of a file
};
[[nodiscard]] constexpr auto names_of(SampleUnit /*key*/) {
  return std::to_array<Named<SampleUnit>>(
      {{SampleUnit::file, "file"}, {SampleUnit::axis, "axis"}, {SampleUnit::group, "group"}});
}

// data.scaling
enum class Scaling : std::uint8_t {
  none,
  mean_std,  // (value - mean) / std
  min_max    // (value - min) / (max - min)
};
[[nodiscard]] constexpr auto names_of(Scaling /*key*/) {
  return std::to_array<Named<Scaling>>(
      {{Scaling::none, "none"}, {Scaling::mean_std, "mean_std"}, {Scaling::min_max, "min_max"}});
}

// data.not_finite: what becomes of a NaN or an infinity among the inputs.
enum class NotFinite : std::uint8_t {
  refuse,  // the run ends
  zero,    // 0 after scaling, which is the mean
  keep
};
[[nodiscard]] constexpr auto names_of(NotFinite /*key*/) {
  return std::to_array<Named<NotFinite>>(
      {{NotFinite::refuse, "refuse"}, {NotFinite::zero, "zero"}, {NotFinite::keep, "keep"}});
}

// data.damaged: what becomes of a sample that cannot be decoded.
enum class Damaged : std::uint8_t { refuse, skip };
[[nodiscard]] constexpr auto names_of(Damaged /*key*/) {
  return std::to_array<Named<Damaged>>({{Damaged::refuse, "refuse"}, {Damaged::skip, "skip"}});
}

// parallel.schedule
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
[[nodiscard]] constexpr auto names_of(ScheduleKind /*key*/) {
  return std::to_array<Named<ScheduleKind>>({{ScheduleKind::gpipe, "gpipe"},
                                             {ScheduleKind::one_f_one_b, "1f1b"},
                                             {ScheduleKind::interleaved, "interleaved"},
                                             {ScheduleKind::zero_bubble, "zero-bubble"}});
}

// parallel.reduce_dtype: what data-parallel ranks send of their gradients.
enum class ReduceDtype : std::uint8_t { fp32, compute };
[[nodiscard]] constexpr auto names_of(ReduceDtype /*key*/) {
  return std::to_array<Named<ReduceDtype>>(
      {{ReduceDtype::fp32, "fp32"}, {ReduceDtype::compute, "compute"}});
}

// parallel.reducer: gradients are reduced during backward or after it.
enum class ReducerMode : std::uint8_t { overlapped, inline_after_backward };
[[nodiscard]] constexpr auto names_of(ReducerMode /*key*/) {
  return std::to_array<Named<ReducerMode>>(
      {{ReducerMode::overlapped, "overlapped"}, {ReducerMode::inline_after_backward, "inline"}});
}

// train.recompute: which activations backward computes anew instead of keeping them.
enum class Recompute : std::uint8_t {
  none,
  selective,  // attention and activation functions (Korthikanti et al., 2022)
  full        // everything inside a block: only its input is kept (Chen et al., 2016)
};
[[nodiscard]] constexpr auto names_of(Recompute /*key*/) {
  return std::to_array<Named<Recompute>>(
      {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}});
}

// lr_schedule.name. wsd: warm-up, stable, then a linear decay over the last part (Hu et al.,
// MiniCPM, 2024).
enum class LrDecay : std::uint8_t { constant, linear, cosine, wsd };
[[nodiscard]] constexpr auto names_of(LrDecay /*key*/) {
  return std::to_array<Named<LrDecay>>({{LrDecay::constant, "constant"},
                                        {LrDecay::linear, "linear"},
                                        {LrDecay::cosine, "cosine"},
                                        {LrDecay::wsd, "wsd"}});
}

}  // namespace trireme
