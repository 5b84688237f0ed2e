// SPDX-License-Identifier: Apache-2.0
#include "data/sets/dataset.h"

#include <fmt/format.h>

#include "data/megatron/index.h"
#include "data/megatron/megatron_dataset.h"
#include "data/sets/image_dataset.h"
#include "data/sets/text_dataset.h"
#include "data/sets/token_dataset.h"
#include "data/shard/shard_set.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_reads_tokens(const std::string& path, const DatasetOptions& options) {
  if (options.classes > 0 || options.image_size > 0 || options.channels > 0) {
    fail(ExitCode::data,
         "{}: holds tokens, but the model reads images; point data.path at image shards or choose "
         "a language model",
         path);
  }
}

void check_token_options(const Shard& shard, const DatasetOptions& options) {
  check_reads_tokens(shard.path, options);
  const auto vocabulary = static_cast<std::int64_t>(shard.header.vocabulary);
  if (options.vocabulary > 0 && vocabulary > options.vocabulary) {
    fail(ExitCode::data,
         "{}: packed with a vocabulary of {} (tokenizer {}), more than model.vocabulary = {}; set "
         "model.vocabulary to at least {}",
         shard.path, vocabulary, shard.header.tokenizer, options.vocabulary, vocabulary);
  }
}

// That texts have the targets that the model predicts.
void check_text_targets(const Shard& shard, const DatasetOptions& options) {
  const ShardHeader& header = shard.header;
  if (header.targets != options.text_targets) {
    const auto meaning = [](TextTargets targets) {
      return targets == TextTargets::none ? std::string("running text (model.head: language)")
                                          : fmt::format("texts with {}", name_of(targets));
    };
    fail(ExitCode::data,
         "{}: holds {}, but the model reads {}; set model.head, or pack texts with `trireme data "
         "pack-text --targets`",
         shard.path, meaning(header.targets), meaning(options.text_targets));
  }
  const bool named = header.targets != TextTargets::values;
  const auto count = static_cast<std::int64_t>(named ? header.classes.size() : header.target_width);
  const bool exact = header.has_float_targets();
  if (header.targets == TextTargets::none ||
      (exact ? count == options.target_width : count <= options.target_width))
    return;
  const std::string_view key = named ? "model.classes" : "model.targets";
  fail(ExitCode::data, "{}: has {} {}, but {} = {}; set {} to {}{}", shard.path, count,
       named ? (exact ? "labels" : "classes") : "numbers a text", key, options.target_width, key,
       exact ? "" : "at least ", count);
}

void check_image_options(const Shard& shard, const DatasetOptions& options) {
  const ShardHeader& header = shard.header;
  if (options.vocabulary > 0) {
    fail(ExitCode::data,
         "{}: holds images, but the model reads tokens; point data.path at token shards or choose "
         "an image model",
         shard.path);
  }
  const auto size = static_cast<std::uint64_t>(options.image_size);
  const auto width =
      options.image_width > 0 ? static_cast<std::uint64_t>(options.image_width) : size;
  if (size > 0 && size == width && (header.height != size || header.width != size)) {
    fail(ExitCode::data,
         "{}: images are {} x {}, but model.image_size = {}; set model.image_size or re-pack with "
         "`--resize {}`",
         shard.path, header.height, header.width, size, size);
  }
  if (size != width && (header.height != size || header.width != width)) {
    fail(ExitCode::data,
         "{}: images are {} x {}, but model.image_size = {} and model.image_width = {}; set them "
         "to the size of the images",
         shard.path, header.height, header.width, size, width);
  }
  if (options.channels > 0 && header.channels != static_cast<std::uint64_t>(options.channels)) {
    fail(ExitCode::data,
         "{}: images have {} channels, but model.channels = {}; set model.channels or re-pack with "
         "`--channels {}`",
         shard.path, header.channels, options.channels, options.channels);
  }
  if (options.classes > 0 && header.classes.size() > static_cast<std::size_t>(options.classes)) {
    fail(ExitCode::data,
         "{}: has {} classes, more than model.classes = {}; set model.classes to at least {}",
         shard.path, header.classes.size(), options.classes, header.classes.size());
  }
}

}  // namespace

const std::vector<Shard>& Dataset::shards() const {
  static const std::vector<Shard> none;
  return none;
}

IdNames Dataset::id_names() const {
  return shards().empty() ? IdNames{} : id_names_of(shards().front());
}

void Dataset::check_request(std::int64_t index, std::span<const std::byte> inputs,
                            std::span<const std::int32_t> targets) const {
  TRIREME_EXPECTS(index >= 0 && index < size() && inputs.size() == layout().input_bytes() &&
                      targets.size() == static_cast<std::size_t>(layout().targets.count()),
                  "sample {} of {} into {} bytes and {} targets", index, size(), inputs.size(),
                  targets.size());
}

SampleLayout token_samples(std::int64_t context, bool documents) {
  return {.input_dtype = DType::i32,
          .inputs = Shape{context},
          .targets = Shape{context},
          .documents = documents};
}

SampleLayout image_samples(std::int64_t height, std::int64_t width, std::int64_t channels) {
  return {DType::u8, Shape{height, width, channels}, Shape{}};
}

void Dataset::document_starts(std::int64_t /*index*/, std::span<std::int32_t> /*starts*/) const {
  TRIREME_EXPECTS(false, "a data set of {} has no documents", name_of(kind()));
}

std::vector<std::string> Dataset::files() const {
  std::vector<std::string> paths;
  for (const Shard& shard : shards())
    paths.push_back(shard.path);
  return paths;
}

std::unique_ptr<Dataset> Dataset::open(const std::string& path, const DatasetOptions& options) {
  if (const auto index = find_megatron_index(path)) {
    check_reads_tokens(*index, options);
    if (options.text_targets != TextTargets::none)
      fail(ExitCode::data,
           "{}: tokens of Megatron-LM have no targets of texts; pack them with `trireme data "
           "pack-text --targets`",
           *index);
    return std::make_unique<MegatronDataset>(*index, options.context, options.vocabulary,
                                             options.documents, options.token_bytes);
  }
  ShardSet shards(list_shards(path, options.split), options.check_blocks);
  const Shard& first = shards.shards().front();
  if (first.header.kind == DataKind::tokens) {
    check_token_options(first, options);
    check_text_targets(first, options);
    if (first.header.targets != TextTargets::none)
      return std::make_unique<TextDataset>(std::move(shards), options);
    return std::make_unique<TokenDataset>(std::move(shards), options.context, options.documents);
  }
  check_image_options(first, options);
  return std::make_unique<ImageDataset>(std::move(shards));
}

}  // namespace trireme
