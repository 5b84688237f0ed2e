// SPDX-License-Identifier: Apache-2.0
// Several data sets as one: their samples one behind the other. How they are mixed is the order's
// (loader/mixture_order.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/sets/dataset.h"

namespace trireme {

class MixtureDataset final : public Dataset {
 public:
  using Source = NamedDataset;
  // `recipe`: everything else that the order depends on, for the fingerprint. Raises
  // ExitCode::data, naming both, if samples of two sources differ in shape or in the meaning of ids
  // and labels.
  MixtureDataset(std::vector<Source> sources, const std::string& recipe);

  [[nodiscard]] DataKind kind() const override { return sources_.front().data->kind(); }
  [[nodiscard]] std::int64_t size() const override { return starts_.back(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return shards_; }
  [[nodiscard]] IdNames id_names() const override { return id_names_; }
  [[nodiscard]] std::vector<std::string> files() const override;
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;
  void read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                     std::span<std::int32_t> targets) const override;
  [[nodiscard]] float weight(std::int64_t index) const override;
  [[nodiscard]] std::string touched() const override;  // of the first source with an answer
  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override;
  [[nodiscard]] DecodedChunks decoded_chunks() const override;
  [[nodiscard]] std::string shortcomings() const override;

  [[nodiscard]] std::span<const Source> sources() const override { return sources_; }

 private:
  struct Place {
    const Dataset& data;
    std::int64_t index;
  };
  [[nodiscard]] Place find(std::int64_t index) const;

  std::vector<Source> sources_;
  SampleLayout layout_;                  // weighted if any source is
  std::vector<std::int64_t> starts_{0};  // one more than sources
  std::vector<Shard> shards_;            // of all
  IdNames id_names_;                     // of the first source with an answer
  std::uint64_t fingerprint_ = 0;
};

}  // namespace trireme
