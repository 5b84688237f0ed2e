// SPDX-License-Identifier: Apache-2.0
// A data set: shards seen as numbered samples. Reading is thread-safe and takes no lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sets/id_names.h"
#include "data/shard/read_times.h"
#include "data/shard/shard.h"
#include "runtime/base/shape.h"

namespace trireme {

// What the caller can work with; a data set that differs is refused when it is opened. 0 or empty =
// any.
struct DatasetOptions {
  std::int64_t context = 0;      // T, tokens per sample; required for token shards
  std::string split = {};        // train, validation: subdirectory, when `path` has no shards
  std::int64_t vocabulary = 0;   // of the model; at least the data set's
  std::int64_t classes = 0;      // of the model; at least the data set's
  std::int64_t image_size = 0;   // height
  std::int64_t image_width = 0;  // 0: as the height
  std::int64_t channels = 0;
  bool documents = false;    // of tokens: tells them apart
  bool check_blocks = true;  // false: to measure what the block checksums cost
};

// One sample as it lies in a batch.
struct SampleLayout {
  DType input_dtype = DType::i32;
  Shape inputs;            // tokens (T), images (H, W, C)
  Shape targets;           // i32: tokens (T), labels (1)
  bool weighted = false;   // samples have weights
  bool documents = false;  // of tokens: documents are told apart

  // Pictures, of bytes or floats, with a label each.
  [[nodiscard]] bool is_labelled() const { return input_dtype != DType::i32; }

  [[nodiscard]] std::size_t input_bytes() const {
    return static_cast<std::size_t>(inputs.count()) * size_of(input_dtype);
  }
};

// Of what a data set holds: sequences of `context` tokens; pictures with a label each.
[[nodiscard]] SampleLayout token_samples(std::int64_t context, bool documents = false);
[[nodiscard]] SampleLayout image_samples(std::int64_t height, std::int64_t width,
                                         std::int64_t channels);

class Dataset;

// One of several that are mixed.
struct NamedDataset {
  std::string name;
  std::shared_ptr<const Dataset> data;
};

class Dataset {
 public:
  // `path` is a directory of shards (shard_00000.h5, ...), a directory whose subdirectory
  // `options.split` is one, a single shard, or tokens of Megatron-LM (PREFIX or PREFIX.idx). Opens
  // and validates every shard. Raises ExitCode::data for a missing, empty, damaged or incomplete
  // data set, shards that disagree, or one that does not fit `options`.
  [[nodiscard]] static std::unique_ptr<Dataset> open(const std::string& path,
                                                     const DatasetOptions& options);
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  [[nodiscard]] virtual DataKind kind() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;  // samples
  [[nodiscard]] virtual const SampleLayout& layout() const = 0;
  // Hash over the checksums, sizes and order of all shards. A run resumes only on the same
  // fingerprint.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;
  // Those that can be verified; by default none.
  [[nodiscard]] virtual const std::vector<Shard>& shards() const;
  // What ids or labels stand for, as far as the data says so: by default as its first shard does.
  [[nodiscard]] virtual IdNames id_names() const;

  // Paths of what samples are read from, in the order of the samples: what may be copied to a disk
  // of the host (staging/staging.h). All of them are opened as DataFile.
  [[nodiscard]] virtual std::vector<std::string> files() const;

  // Reads sample `index` in [0, size()). The spans have the layout's sizes. Any number of threads
  // may call this at once. Raises ExitCode::data naming the file for an I/O error, a file that was
  // cut meanwhile, a block that does not match its checksum, or a token id outside the vocabulary.
  virtual void read(std::int64_t index, std::span<std::byte> inputs,
                    std::span<std::int32_t> targets) const = 0;
  // The same as pass `epoch` of a training run sees it, for data sets that draw at random what they
  // show of a sample. The others read the same in every pass.
  virtual void read_in_epoch(std::int64_t /*epoch*/, std::int64_t index,
                             std::span<std::byte> inputs, std::span<std::int32_t> targets) const {
    read(index, inputs, targets);
  }

  // Of several data sets as one, each; else none.
  [[nodiscard]] virtual std::span<const NamedDataset> sources() const { return {}; }
  // Of files of which some samples are for validation and are left out here: those; else null.
  [[nodiscard]] virtual std::unique_ptr<Dataset> held_back() const { return nullptr; }
  // Keeps in the file `path` what was learned of files that are read in place, for the next start;
  // others have nothing to keep.
  virtual void keep_index(const std::string& path) const { static_cast<void>(path); }

  // Multiplies the loss of sample `index`; asked for where layout().weighted. As read().
  [[nodiscard]] virtual float weight(std::int64_t index) const {
    static_cast<void>(index);
    return 1.0F;
  }

  // Files that were written to since an earlier start of the run looked at them, and kept their
  // size, so that their fingerprint may be the same: "a.h5 and 2 more were"; "" for none.
  [[nodiscard]] virtual std::string touched() const { return ""; }

  // Where the document of each of the T + 1 tokens of window `index` begins in it, 0 where it began
  // before; asked for where layout().documents. Any number of threads may call this at once.
  virtual void document_starts(std::int64_t index, std::span<std::int32_t> starts) const;

  // So far. Any number of threads may call this at once.
  [[nodiscard]] virtual DecodedChunks decoded_chunks() const { return {}; }

  // What was left out or altered of the samples read so far, for the end of a run; "" for nothing.
  [[nodiscard]] virtual std::string shortcomings() const { return ""; }

 protected:
  Dataset() = default;
  // What read() was asked for is a sample and has room for it.
  void check_request(std::int64_t index, std::span<const std::byte> inputs,
                     std::span<const std::int32_t> targets) const;
};

// The directories under `path` that hold shards: `path` itself, else its subdirectories, sorted; a
// file gives itself. Raises ExitCode::data when there are none.
[[nodiscard]] std::vector<std::string> find_datasets(const std::string& path);

}  // namespace trireme
