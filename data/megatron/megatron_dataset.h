// SPDX-License-Identifier: Apache-2.0
// Tokens that Megatron-LM has prepared (.bin and .idx), read in place as windows of T + 1 tokens.
#pragma once

#include "data/kinds.h"
#include "data/megatron/index.h"
#include "data/sets/dataset.h"
#include "data/sets/document_borders.h"
#include "data/shard/data_file.h"
#include "data/shard/file_stamp.h"

namespace trireme {

// Sample i is the window [i * T, i * T + T + 1) of the .bin file, in its order, as for token
// shards. It has no shards or checksums. A .bin file whose file system stamps change during the run
// is refused.
class MegatronDataset final : public Dataset {
 public:
  // `vocabulary`: of the model; 0: any. `documents`: keeps their start offsets, 8 bytes each.
  MegatronDataset(const std::string& index_path, std::int64_t context, std::int64_t vocabulary,
                  bool documents = false, std::int64_t token_bytes = 0);

  [[nodiscard]] DataKind kind() const override { return DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  // Over the index, the size of the .bin file and 64 pieces of it.
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }
  // The .bin file; the index has been read.
  [[nodiscard]] std::vector<std::string> files() const override { return {index_.data_path}; }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;

  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override;

  // Tokens from `first` on. Raises ExitCode::data naming one that is no id of the vocabulary.
  void read_ids(std::uint64_t first, std::span<std::int64_t> to) const;

 private:
  [[nodiscard]] std::uint64_t fingerprint_of_files() const;

  MegatronIndex index_;
  DataFile file_;
  ChangeWatch watch_;
  DocumentBorders borders_;
  SampleLayout layout_;
  std::int64_t size_ = 0;
  std::int64_t limit_ = 0;  // every id is below
  std::uint64_t fingerprint_ = 0;
};

// Describes the tokens, and with `preview` > 0 the first ids.
[[nodiscard]] Description inspect_megatron(const DataPlace& place);
// There are no checksums: checks the index, that the .bin file is there to its end, and that every
// id is one.
[[nodiscard]] std::vector<ShardReport> verify_megatron(const DataPlace& place,
                                                       const StartProgress& start);

}  // namespace trireme
