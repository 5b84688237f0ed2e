// SPDX-License-Identifier: Apache-2.0
// Masked language modelling (Devlin et al., 2019): hides some tokens of a token data set.
#pragma once

#include <memory>

#include "data/sets/dataset.h"

namespace trireme {

struct MaskOptions {
  double share = 0.15;  // of tokens to predict
  std::int32_t mask = 0;
  std::int32_t vocabulary = 0;  // range of random tokens, the mask token excluded
  std::uint64_t seed = 0;
  bool every_epoch =
      true;  // new choices each epoch; else those of the first, for stable validation
};

// Of the tokens to predict 80 % become the mask, 10 % another token, 10 % stay. The choices are a
// pure function of (seed, epoch, sample, place). Targets are the tokens to predict, and
// ignored_target elsewhere. Each sample has at least one.
class MaskedTokens final : public Dataset {
 public:
  MaskedTokens(std::unique_ptr<Dataset> tokens, const MaskOptions& options);

  [[nodiscard]] DataKind kind() const override { return tokens_->kind(); }
  [[nodiscard]] std::int64_t size() const override { return tokens_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return tokens_->layout(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return tokens_->fingerprint(); }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return tokens_->shards(); }
  [[nodiscard]] IdNames id_names() const override { return tokens_->id_names(); }
  [[nodiscard]] std::vector<std::string> files() const override { return tokens_->files(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    read_in_epoch(0, index, inputs, targets);
  }
  void read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                     std::span<std::int32_t> targets) const override;
  [[nodiscard]] std::string shortcomings() const override { return tokens_->shortcomings(); }

 private:
  std::unique_ptr<Dataset> tokens_;
  MaskOptions options_;
};

}  // namespace trireme
