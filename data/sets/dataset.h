// SPDX-License-Identifier: Apache-2.0
// A data set: shards seen as numbered samples. Reading is thread-safe and takes no lock.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sets/id_names.h"
#include "data/shard/read_times.h"
#include "data/shard/shard.h"
#include "runtime/base/shape.h"

namespace trireme {

// The caller's requirements; a data set that differs is refused when it is opened. 0 or empty: any.
struct DatasetOptions {
  std::int64_t context = 0;      // T, tokens per sample; required for token shards
  std::string split = {};        // train, validation: subdirectory, when `path` has no shards
  std::int64_t vocabulary = 0;   // of the model; at least the data set's
  std::int64_t token_bytes = 0;  // of a .bin file without index: 2 or 4; 0: by its content
  std::int64_t classes = 0;      // of the model; at least the data set's
  // Of a model of texts with targets of their own: their kind, and how many numbers (of labels and
  // classes: at least the data set's).
  TextTargets text_targets = TextTargets::none;
  std::int64_t target_width = 0;
  std::int64_t pad_token = 0;    // behind such a text
  bool pools_last = false;       // the last token that is not pad_token ends such a text
  bool skips_padding = false;    // such a text must not have pad_token
  std::int64_t image_size = 0;   // height
  std::int64_t image_width = 0;  // 0: as the height
  std::int64_t channels = 0;
  bool documents = false;    // for tokens: distinguishes documents
  bool check_blocks = true;  // false: to measure what the block checksums cost
};

// The layout of a sample in a batch.
struct SampleLayout {
  DType input_dtype = DType::i32;
  Shape inputs;                     // tokens (T), images (H, W, C), volumes (D, H, W, C)
  Shape targets;                    // tokens (T), a label (), classes of pixels, numbers (K)
  DType target_dtype = DType::i32;  // f32 for numbers
  bool weighted = false;            // samples have weights
  bool documents = false;           // for tokens: documents are distinguished
  bool predicts_next = true;        // for tokens: a token's target is the token after it
  double mean_documents = 1;        // then: parts of documents in a sample

  [[nodiscard]] std::size_t input_bytes() const {
    return static_cast<std::size_t>(inputs.count()) * size_of(input_dtype);
  }
  // The bits of a target that adds nothing to the loss: class -1, or NaN.
  [[nodiscard]] std::int32_t no_target() const {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    return target_dtype == DType::f32 ? std::bit_cast<std::int32_t>(nan) : masked_target;
  }
};

// For sequences of `context` tokens, and for images with a label each.
[[nodiscard]] SampleLayout token_samples(std::int64_t context, bool documents = false);
[[nodiscard]] SampleLayout image_samples(std::int64_t height, std::int64_t width,
                                         std::int64_t channels);

class Dataset;
class FieldDataset;

// A data set of a mixture.
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
  // Shards that can be verified; by default none.
  [[nodiscard]] virtual const std::vector<Shard>& shards() const;
  // The meaning of ids or labels, if the data has it: by default that of the first shard.
  [[nodiscard]] virtual IdNames id_names() const;

  // Paths of the sample files, in sample order, which may be copied to a local disk
  // (staging/staging.h). All are opened as DataFile.
  [[nodiscard]] virtual std::vector<std::string> files() const;

  // Reads sample `index` in [0, size()). The spans have the layout's sizes; targets of f32 are
  // given as their bits. Any number of threads
  // may call this at once. Raises ExitCode::data naming the file for an I/O error, a file that was
  // cut meanwhile, a block that does not match its checksum, or a token id outside the vocabulary.
  virtual void read(std::int64_t index, std::span<std::byte> inputs,
                    std::span<std::int32_t> targets) const = 0;
  // As read(), for pass `epoch` of a training run: for data sets with random views of a sample.
  // Others read the same in every pass.
  virtual void read_in_epoch(std::int64_t /*epoch*/, std::int64_t index,
                             std::span<std::byte> inputs, std::span<std::int32_t> targets) const {
    read(index, inputs, targets);
  }

  // This, if its samples are fields, of which parts can be read; else null.
  [[nodiscard]] virtual const FieldDataset* fields() const { return nullptr; }
  // The data sets of a mixture; else none.
  [[nodiscard]] virtual std::span<const NamedDataset> sources() const { return {}; }
  // The validation samples of the same files, which this data set leaves out; else null.
  [[nodiscard]] virtual std::unique_ptr<Dataset> held_back() const { return nullptr; }
  // Stores the index of files that are read in place at `path`, for the next start; others store
  // nothing.
  virtual void keep_index(const std::string& path) const { static_cast<void>(path); }

  // Factor of the loss of sample `index`; called if layout().weighted. As read().
  [[nodiscard]] virtual float weight(std::int64_t index) const {
    static_cast<void>(index);
    return 1.0F;
  }

  // Files that were written to since the run's earlier start but kept their size, so their
  // fingerprint may be equal: "a.h5 and 2 more were"; "" for none.
  [[nodiscard]] virtual std::string touched() const { return ""; }

  // Per token of the T + 1 tokens of window `index`, the start of its document in the window; 0 if
  // that is earlier. Called if layout().documents. Any number of threads may call this at once.
  virtual void document_starts(std::int64_t index, std::span<std::int32_t> starts) const;

  // Consecutive samples whose inputs are decoded together; 1: each by itself.
  [[nodiscard]] virtual std::int64_t samples_of_chunk() const { return 1; }
  // So far. Any number of threads may call this at once.
  [[nodiscard]] virtual DecodedChunks decoded_chunks() const { return {}; }

  // Samples skipped or altered so far, for the end of a run; "" for none.
  [[nodiscard]] virtual std::string shortcomings() const { return ""; }

 protected:
  Dataset() = default;
  // Checks that `index` is a sample and the spans have room for it.
  void check_request(std::int64_t index, std::span<const std::byte> inputs,
                     std::span<const std::int32_t> targets) const;
};

// The directories under `path` that hold shards: `path` itself, else its subdirectories, sorted; a
// file gives itself. Raises ExitCode::data when there are none.
[[nodiscard]] std::vector<std::string> find_datasets(const std::string& path);

}  // namespace trireme
