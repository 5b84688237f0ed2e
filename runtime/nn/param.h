// SPDX-License-Identifier: Apache-2.0
// ParamSpec: everything there is to know about a parameter, declared once. ParamStore: all
// parameters of a model part in flat fp32 arenas, ordered by when backward finishes them (the
// reverse of declaration), so that a gradient bucket is a contiguous range. Allocator, initialiser,
// optimizer, reducer, weight files and planner read the specs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace trireme {

struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform, sinusoid };
  Kind kind = Kind::constant;
  float a = 0;  // the constant, the mean, the lower bound or the amplitude
  float b = 0;  // the deviation or the upper bound

  static Init constant(float value) { return {Kind::constant, value, 0}; }
  static Init normal(float deviation) { return {Kind::normal, 0, deviation}; }
  static Init uniform(float bound) { return {Kind::uniform, -bound, bound}; }
  static Init sinusoid(float amplitude) { return {Kind::sinusoid, amplitude, 0}; }
};

enum class ParamKind : std::uint8_t {
  weight,
  // A running statistic. Its gradient slot collects this step's value (summed over micro-batches
  // and ranks like any gradient) and the update is p = decay * p + (1 - decay) * collected: no
  // second mechanism for batch norm.
  statistic
};

struct ParamSpec {
  std::string name;  // "blocks.0.attention.qkv.weight"
  Shape shape{};
  Init init{};
  bool decay = false;   // weight decay applies
  bool matrix = false;  // read by kernels in the compute dtype; others stay fp32
  int shard_axis = -1;  // axis that tensor parallelism splits; -1: replicated
  ParamKind kind = ParamKind::weight;
  float statistic_decay = 0.9F;

  friend bool operator==(const ParamSpec& a, const ParamSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.kind == b.kind;
  }
};

struct ParamId {
  int index = -1;
};

// A run of neighbouring elements of the arenas that the optimizer treats alike.
struct ParamSegment {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool decay = false;
  ParamKind kind = ParamKind::weight;
  float statistic_decay = 0;
};

class ParamStore {
 public:
  // The same name declared twice is one tied parameter; its shape must agree.
  ParamId declare(const ParamSpec& spec);

  // Lays out and allocates. After this no parameter can be declared. Gradients only when
  // `training`.
  void allocate(Device& device, DType compute, bool training);
  // Draws every parameter from its Init, keyed by (seed, name): independent of rank and layout.
  void initialize(Stream& stream, std::uint64_t seed);
  // Rewrites the compute copies from the fp32 values (after loading weights).
  void refresh_compute(Stream& stream);

  [[nodiscard]] std::span<const ParamSpec> specs() const { return specs_; }
  [[nodiscard]] std::int64_t offset(ParamId id) const { return offsets_[at(id)]; }
  [[nodiscard]] Tensor master(ParamId id) const { return view(masters_, id, DType::f32); }
  [[nodiscard]] Tensor gradient(ParamId id) const { return view(gradients_, id, DType::f32); }
  // What kernels read: the compute dtype for matrices, fp32 for the rest.
  [[nodiscard]] Tensor compute(ParamId id) const;

  // Whole arenas, f32, element_count() each, padding included (padding stays zero). Weights come
  // first, weight_elements() of them, then statistics.
  [[nodiscard]] Tensor masters() const { return flat(masters_, DType::f32); }
  [[nodiscard]] Tensor gradients() const { return flat(gradients_, DType::f32); }
  [[nodiscard]] Tensor compute_copies() const;  // empty when the compute dtype is f32
  [[nodiscard]] std::int64_t element_count() const { return elements_; }
  [[nodiscard]] std::int64_t weight_elements() const { return weight_elements_; }
  // Sum of the specs' element counts, statistics and padding not included.
  [[nodiscard]] std::int64_t parameter_count() const;
  // Arena order, weights before statistics.
  [[nodiscard]] std::span<const ParamId> order() const { return order_; }
  [[nodiscard]] std::span<const ParamSegment> segments() const { return segments_; }

 private:
  [[nodiscard]] std::size_t at(ParamId id) const;
  [[nodiscard]] Tensor view(const Buffer& arena, ParamId id, DType dtype) const;
  [[nodiscard]] Tensor flat(const Buffer& arena, DType dtype) const;
  void lay_out();

  std::vector<ParamSpec> specs_;
  std::vector<std::int64_t> offsets_;
  std::vector<ParamId> order_;
  std::vector<ParamSegment> segments_;
  std::int64_t elements_ = 0;
  std::int64_t weight_elements_ = 0;
  DType compute_dtype_ = DType::f32;
  Buffer masters_, gradients_, compute_;
};

}  // namespace trireme
