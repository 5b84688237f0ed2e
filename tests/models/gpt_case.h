// SPDX-License-Identifier: Apache-2.0
// A small GPT with everything that layers may get wrong: a padded vocabulary, dropout, ignored
// targets, label smoothing, biases and norms away from their initial values. What it computes is
// the same function of its options however the model is built.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/gpt/gpt.h"

namespace trireme::test {

inline constexpr GptOptions small_gpt{
    .layers = 2, .hidden = 32, .heads = 4, .context = 12, .vocabulary = 50, .dropout = 0.2F};
inline constexpr std::int64_t small_batch = 3;

// Counts reports of finished gradients by parameter name.
class CountingSink final : public GradientSink {
 public:
  explicit CountingSink(const ParamStore& params) : params_(params) {}
  void ready(ParamId id) override { ++counts_[params_.layout().spec(id).name]; }
  [[nodiscard]] const std::map<std::string, int>& counts() const { return counts_; }

 private:
  const ParamStore& params_;
  std::map<std::string, int> counts_;
};

// Bit patterns, so that equality is of bits.
using Bits = std::vector<std::uint32_t>;

struct GptResult {
  Bits losses, hits;
  std::map<std::string, Bits> gradients;  // as stored by the rank
  std::map<std::string, int> reports;     // of finished gradients, over all passes
  double loss = 0;                        // mean
  std::size_t activation_bytes = 0;
};

class GptCase {
 public:
  // `group` may be null on one rank.
  GptCase(Device& device, Stream& compute, const GptOptions& options, const BuildOptions& build,
          const TensorGroup* group = nullptr, bool separate_ties = false);

  [[nodiscard]] Model& model() { return model_; }
  [[nodiscard]] Context context(std::uint64_t step);
  // Forward and backward of `passes` micro-batches, gradients accumulated.
  [[nodiscard]] GptResult run(int passes = 2);

 private:
  void fill_parameters();

  Device& device_;
  Stream& compute_;
  GptOptions options_;
  BuildOptions build_;
  const TensorGroup* group_;
  Model model_;
  Buffer inputs_, targets_, ids_, rng_;
  Batch batch_{};
};

// What a rank of `split` stores of a gradient that one rank with the same blocks stores whole.
[[nodiscard]] Bits part_of(const Bits& whole, const ParamSpec& spec, const TensorSplit& split);

}  // namespace trireme::test
