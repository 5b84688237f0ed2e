// SPDX-License-Identifier: Apache-2.0
#include "data/sets/mixture_dataset.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

bool same(const SampleLayout& a, const SampleLayout& b) {
  return a.input_dtype == b.input_dtype && a.inputs == b.inputs && a.targets == b.targets &&
         a.target_dtype == b.target_dtype && a.documents == b.documents;
}

std::string described(const SampleLayout& layout) {
  return fmt::format("{} {} with targets {} {}", name_of(layout.input_dtype),
                     layout.inputs.to_string(), name_of(layout.target_dtype),
                     layout.targets.to_string());
}

}  // namespace

MixtureDataset::MixtureDataset(std::vector<Source> sources, const std::string& recipe)
    : sources_(std::move(sources)) {
  TRIREME_EXPECTS(!sources_.empty(), "a mixture has no sources");
  const Source& first = sources_.front();
  layout_ = first.data->layout();
  Checksum all;
  all.update(std::as_bytes(std::span(recipe)));
  for (const Source& source : sources_) {
    if (!same(source.data->layout(), first.data->layout()))
      fail(ExitCode::data,
           "{}: its samples are {}, but those of {} are {}; all sources of a mixture must have the "
           "same samples",
           source.name, described(source.data->layout()), first.name,
           described(first.data->layout()));
    layout_.weighted = layout_.weighted || source.data->layout().weighted;
    layout_.mean_documents = std::max(layout_.mean_documents, source.data->layout().mean_documents);
    const std::vector<Shard>& shards = source.data->shards();
    const IdNames names = source.data->id_names();
    if (!id_names_.source.empty() && !names.source.empty()) require_same_ids(id_names_, names);
    if (id_names_.source.empty()) id_names_ = names;
    shards_.insert(shards_.end(), shards.begin(), shards.end());
    starts_.push_back(starts_.back() + source.data->size());
    const std::array<std::uint64_t, 2> known = {source.data->fingerprint(),
                                                static_cast<std::uint64_t>(source.data->size())};
    all.update(std::as_bytes(std::span(known)));
  }
  fingerprint_ = all.value();
}

std::vector<std::string> MixtureDataset::files() const {
  std::vector<std::string> paths;
  for (const Source& source : sources_)
    std::ranges::move(source.data->files(), std::back_inserter(paths));
  return paths;
}

MixtureDataset::Place MixtureDataset::find(std::int64_t index) const {
  TRIREME_EXPECTS(index >= 0 && index < size(), "sample {} of {}", index, size());
  const auto after = std::ranges::upper_bound(starts_, index);
  const auto which = static_cast<std::size_t>(after - starts_.begin()) - 1;
  return {*sources_[which].data, index - starts_[which]};
}

void MixtureDataset::read(std::int64_t index, std::span<std::byte> inputs,
                          std::span<std::int32_t> targets) const {
  const Place place = find(index);
  place.data.read(place.index, inputs, targets);
}

void MixtureDataset::read_in_epoch(std::int64_t epoch, std::int64_t index,
                                   std::span<std::byte> inputs,
                                   std::span<std::int32_t> targets) const {
  const Place place = find(index);
  place.data.read_in_epoch(epoch, place.index, inputs, targets);
}

float MixtureDataset::weight(std::int64_t index) const {
  const Place place = find(index);
  return place.data.weight(place.index);
}

std::string MixtureDataset::touched() const {
  for (const Source& source : sources_) {
    if (std::string text = source.data->touched(); !text.empty()) return text;
  }
  return "";
}

void MixtureDataset::document_starts(std::int64_t index, std::span<std::int32_t> starts) const {
  const Place place = find(index);
  place.data.document_starts(place.index, starts);
}

DecodedChunks MixtureDataset::decoded_chunks() const {
  DecodedChunks all;
  for (const Source& source : sources_)
    all += source.data->decoded_chunks();
  return all;
}

std::string MixtureDataset::shortcomings() const {
  std::string all;
  for (const Source& source : sources_) {
    if (const std::string text = source.data->shortcomings(); !text.empty())
      all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", source.name, text);
  }
  return all;
}

}  // namespace trireme
