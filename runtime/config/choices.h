// SPDX-License-Identifier: Apache-2.0
// Keys with named values: each is an enum with one table of names, which parsing, printing,
// messages and the key table use. The modules that do the work use the same types.
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

// An enum E with a function names_of(E): a table of all values in the order of messages.
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

// device.type. automatic: cuda if the build supports it and there is a GPU.
enum class DeviceChoice : std::uint8_t { cpu, cuda, automatic };
[[nodiscard]] constexpr auto names_of(DeviceChoice /*key*/) {
  return std::to_array<Named<DeviceChoice>>({{DeviceChoice::cpu, "cpu"},
                                             {DeviceChoice::cuda, "cuda"},
                                             {DeviceChoice::automatic, "auto"}});
}

// data.documents: how attention and positions treat a sequence of several documents.
enum class Documents : std::uint8_t { joined, separate };
[[nodiscard]] constexpr auto names_of(Documents /*key*/) {
  return std::to_array<Named<Documents>>(
      {{Documents::joined, "joined"}, {Documents::separate, "separate"}});
}

// device.graphs: the part of a step that is recorded as CUDA graphs after its first run and then
// replayed.
enum class GraphMode : std::uint8_t {
  off,
  layer,  // each pass of a layer
  step    // a whole step, from the first forward to the last update; off in pipelines
};
[[nodiscard]] constexpr auto names_of(GraphMode /*key*/) {
  return std::to_array<Named<GraphMode>>(
      {{GraphMode::off, "off"}, {GraphMode::layer, "layer"}, {GraphMode::step, "step"}});
}

// precision: the number format of matmuls.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16, fp8, automatic };
[[nodiscard]] constexpr auto names_of(Precision /*key*/) {
  return std::to_array<Named<Precision>>({{Precision::automatic, "auto"},
                                          {Precision::fp32, "fp32"},
                                          {Precision::tf32, "tf32"},
                                          {Precision::bf16, "bf16"},
                                          {Precision::fp16, "fp16"},
                                          {Precision::fp8, "fp8"}});
}

// fp8_recipe: which elements of an 8-bit operand share a scale.
enum class Fp8Recipe : std::uint8_t {
  tensor,     // all
  blockwise,  // 128 along the summed axis, of weights 128 x 128
  mxfp8       // 32 along the summed axis
};
[[nodiscard]] constexpr auto names_of(Fp8Recipe /*key*/) {
  return std::to_array<Named<Fp8Recipe>>({{Fp8Recipe::tensor, "tensor"},
                                          {Fp8Recipe::blockwise, "blockwise"},
                                          {Fp8Recipe::mxfp8, "mxfp8"}});
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

// data.last_batch: treatment of an epoch's samples that do not fill a global batch.
enum class LastBatch : std::uint8_t {
  drop,  // skipped in this epoch
  pad    // filled up with the first samples of the same epoch
};
[[nodiscard]] constexpr auto names_of(LastBatch /*key*/) {
  return std::to_array<Named<LastBatch>>({{LastBatch::drop, "drop"}, {LastBatch::pad, "pad"}});
}

// Interpolation between two points of a ramp.
enum class RampForm : std::uint8_t { stepwise, linear };
[[nodiscard]] constexpr auto names_of(RampForm /*key*/) {
  return std::to_array<Named<RampForm>>(
      {{RampForm::stepwise, "stepwise"}, {RampForm::linear, "linear"}});
}

// data.samples: the unit of an HDF5 file that is a sample.
enum class SampleUnit : std::uint8_t {
  file,  // a whole file
  axis,  // a position along axis N of its data sets
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

// data.transform: of inputs, before they are scaled.
enum class InputTransform : std::uint8_t { none, log1p };  // log1p: log(1 + value)
[[nodiscard]] constexpr auto names_of(InputTransform /*key*/) {
  return std::to_array<Named<InputTransform>>(
      {{InputTransform::none, "none"}, {InputTransform::log1p, "log1p"}});
}

// data.not_finite: treatment of NaN and infinity in inputs, and in targets that are numbers.
enum class NotFinite : std::uint8_t {
  refuse,  // end the run
  zero,    // 0 after scaling, which is the mean; no target
  keep     // no target
};
[[nodiscard]] constexpr auto names_of(NotFinite /*key*/) {
  return std::to_array<Named<NotFinite>>(
      {{NotFinite::refuse, "refuse"}, {NotFinite::zero, "zero"}, {NotFinite::keep, "keep"}});
}

// data.damaged: treatment of samples that cannot be decoded.
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

// parallel.reduce_dtype: the dtype in which data-parallel ranks send gradients.
enum class ReduceDtype : std::uint8_t { fp32, compute };
[[nodiscard]] constexpr auto names_of(ReduceDtype /*key*/) {
  return std::to_array<Named<ReduceDtype>>(
      {{ReduceDtype::fp32, "fp32"}, {ReduceDtype::compute, "compute"}});
}

// parallel.reducer: reduce gradients during backward or after it.
enum class ReducerMode : std::uint8_t { overlapped, inline_after_backward };
[[nodiscard]] constexpr auto names_of(ReducerMode /*key*/) {
  return std::to_array<Named<ReducerMode>>(
      {{ReducerMode::overlapped, "overlapped"}, {ReducerMode::inline_after_backward, "inline"}});
}

// parallel.context_mode: how context-parallel ranks bring queries and keys together.
enum class ContextMode : std::uint8_t {
  automatic,  // gather or heads, by memory and bytes
  gather,     // keys and values of some heads at a time, on every rank (Llama 3, 2024)
  heads       // whole sequences of some heads (Jacobs et al., DeepSpeed Ulysses, 2023)
};
[[nodiscard]] constexpr auto names_of(ContextMode /*key*/) {
  return std::to_array<Named<ContextMode>>({{ContextMode::automatic, "auto"},
                                            {ContextMode::gather, "gather"},
                                            {ContextMode::heads, "heads"}});
}

// train.recompute: activations that backward recomputes instead of keeping them.
enum class Recompute : std::uint8_t {
  none,
  selective,  // attention and activation functions (Korthikanti et al., 2022)
  full        // everything in a block but its input (Chen et al., 2016)
};
[[nodiscard]] constexpr auto names_of(Recompute /*key*/) {
  return std::to_array<Named<Recompute>>(
      {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}});
}

// train.loss: of the errors of predicted values, or of the classes of pixels. automatic: mse, or
// cross-entropy.
enum class LossChoice : std::uint8_t { automatic, mse, mae, huber, dice_cross_entropy };
[[nodiscard]] constexpr auto names_of(LossChoice /*key*/) {
  return std::to_array<Named<LossChoice>>({{LossChoice::automatic, "auto"},
                                           {LossChoice::mse, "mse"},
                                           {LossChoice::mae, "mae"},
                                           {LossChoice::huber, "huber"},
                                           {LossChoice::dice_cross_entropy, "dice_cross_entropy"}});
}

// lr_schedule.name. wsd: warm-up, stable, then linear decay (Hu et al., MiniCPM, 2024).
enum class LrDecay : std::uint8_t {
  constant,
  linear,
  cosine,
  wsd,
  polynomial,
  exponential,
  inverse_sqrt,
  multistep
};
[[nodiscard]] constexpr auto names_of(LrDecay /*key*/) {
  return std::to_array<Named<LrDecay>>({{LrDecay::constant, "constant"},
                                        {LrDecay::linear, "linear"},
                                        {LrDecay::cosine, "cosine"},
                                        {LrDecay::wsd, "wsd"},
                                        {LrDecay::polynomial, "polynomial"},
                                        {LrDecay::exponential, "exponential"},
                                        {LrDecay::inverse_sqrt, "inverse_sqrt"},
                                        {LrDecay::multistep, "multistep"}});
}

// The loss of a step, beside its kind: what the config chooses, and the scales of its gradient.
struct LossOptions {
  float label_smoothing = 0.0F;  // target = (1 - s) * one-hot + s / classes (Szegedy et al., 2016)
  // Adds z_loss * (log of the sum of e^logits)^2 (Chowdhery et al., PaLM, 2022).
  float z_loss = 0.0F;
  float gradient_scale = 1.0F;        // multiplies dlogits: 1 / (target count of the global batch)
  const float* loss_scale = nullptr;  // one value on the device, multiplies dlogits too
};

}  // namespace trireme
