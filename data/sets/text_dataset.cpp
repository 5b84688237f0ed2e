// SPDX-License-Identifier: Apache-2.0
#include "data/sets/text_dataset.h"

#include <algorithm>

#include "data/sets/token_dataset.h"
#include "runtime/base/error.h"

namespace trireme {

SampleLayout text_samples(std::int64_t context, TextTargets targets, std::int64_t width) {
  SampleLayout layout = token_samples(context, /*documents=*/true);
  layout.mean_documents = 2;  // the text and its padding
  layout.predicts_next = false;
  if (targets == TextTargets::label) layout.targets = Shape{};
  if (targets != TextTargets::values && targets != TextTargets::labels) return layout;
  layout.targets = Shape{width};
  layout.target_dtype = DType::f32;
  return layout;
}

TextDataset::TextDataset(ShardSet shards, const DatasetOptions& options)
    : shards_(std::move(shards)),
      pad_token_(static_cast<std::int32_t>(options.pad_token)),
      pools_last_(options.pools_last) {
  const std::int64_t context = options.context;
  const Shard& shard = shards_.shards().front();
  const ShardHeader& header = shard.header;
  if (header.longest > static_cast<std::uint64_t>(context))
    fail(ExitCode::data,
         "{}: texts of up to {} tokens, but model.context is {}; pack them with `--longest {}`, or "
         "raise model.context",
         shard.path, header.longest, context, context);
  layout_ = text_samples(context, header.targets, static_cast<std::int64_t>(header.target_width));
  for (std::size_t i = 0; i < shards_.shards().size(); ++i) {
    first_.push_back(starts_.size());
    std::vector<std::uint64_t> offsets(shards_.shards()[i].header.documents + 1);
    shards_.read_index(i, 0, std::as_writable_bytes(std::span(offsets)), {});
    offsets.pop_back();
    for (const std::uint64_t offset : offsets)
      starts_.push_back(shards_.start_of(i) + offset);
  }
  starts_.push_back(shards_.elements());
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (starts_[at] >= starts_[at + 1] || tokens_of(i) > header.longest)
      fail(ExitCode::data,
           "{}: text {} has tokens {} to {}, but texts have 1 to {}; check the data set with "
           "`trireme data inspect --verify` and re-pack it",
           shard.path, i, starts_[at], starts_[at + 1], header.longest);
  }
  if (options.skips_padding) refuse_padding();
}

void TextDataset::refuse_padding() const {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < size(); ++i) {
    ids.resize(tokens_of(i));
    read_text(i, ids);
    const auto found = std::ranges::find(ids, pad_token_);
    if (found != ids.end())
      fail(ExitCode::data,
           "{}: token {} of text {} is {}, the padding (model.pad_token), to which RoBERTa gives "
           "no position; remove it from the text and re-pack",
           shards_.shards()[shards_.shard_of(starts_[static_cast<std::size_t>(i)])].path,
           found - ids.begin(), i, pad_token_);
  }
}

template <typename Token>
void TextDataset::read_tokens(std::size_t which, std::int64_t index,
                              std::span<std::int32_t> to) const {
  static thread_local std::vector<Token> ids;
  const Shard& shard = shards_.shards()[which];
  ids.resize(to.size());
  const std::uint64_t at = starts_[static_cast<std::size_t>(index)] - shards_.start_of(which);
  shards_.read(which, at * sizeof(Token), std::as_writable_bytes(std::span(ids)), index);
  if (largest<Token>(ids) >= shard.header.vocabulary) refuse_ids<Token>(shard, at, ids);
  std::ranges::copy(ids, to.begin());
}

void TextDataset::read_text(std::int64_t index, std::span<std::int32_t> to) const {
  const std::size_t which = shards_.shard_of(starts_[static_cast<std::size_t>(index)]);
  if (shards_.shards()[which].header.dtype == DType::u16) {
    read_tokens<std::uint16_t>(which, index, to);
  } else {
    read_tokens<std::uint32_t>(which, index, to);
  }
}

void TextDataset::check_classes(const Shard& shard, std::int64_t index,
                                std::span<const std::int32_t> targets) const {
  const auto classes = static_cast<std::int32_t>(shard.header.classes.size());
  for (const std::int32_t target : targets) {
    if (target >= masked_target && target < classes) continue;
    fail(ExitCode::data,
         "{}: text {} has class {}, outside its {} classes; check it with `trireme data inspect "
         "--verify` and re-pack",
         shard.path, index, target, classes);
  }
}

void TextDataset::read(std::int64_t index, std::span<std::byte> inputs,
                       std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  const auto at = static_cast<std::size_t>(index);
  const std::size_t which = shards_.shard_of(starts_[at]);
  const Shard& shard = shards_.shards()[which];
  const std::span ids(reinterpret_cast<std::int32_t*>(inputs.data()),
                      static_cast<std::size_t>(layout_.inputs.count()));
  const auto text = ids.first(tokens_of(index));
  read_text(index, text);
  std::ranges::fill(ids.subspan(text.size()), pad_token_);
  const bool each = shard.header.targets == TextTargets::token_classes;
  const auto own = each ? targets.first(text.size()) : targets;
  const std::uint64_t number =
      each ? starts_[at] - shards_.start_of(which) : (at - first_[which]) * targets.size();
  shards_.read_mask(which, number * sizeof(std::int32_t), std::as_writable_bytes(own), index);
  if (!shard.header.has_float_targets()) check_classes(shard, index, own);
  std::ranges::fill(targets.subspan(own.size()), masked_target);
}

void TextDataset::document_starts(std::int64_t index, std::span<std::int32_t> starts) const {
  std::uint64_t end = tokens_of(index);
  if (pools_last_) {
    const std::span ids = starts.first(end);
    read_text(index, ids);
    while (end > 1 && ids[end - 1] == pad_token_)
      --end;
  }
  std::fill(starts.begin(), starts.end(), static_cast<std::int32_t>(end));
  std::fill_n(starts.begin(), end, 0);
}

}  // namespace trireme
