// SPDX-License-Identifier: Apache-2.0
#include "data/megatron/megatron_dataset.h"

#include <algorithm>
#include <array>
#include <limits>

#include "data/inspect.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t window_block_bytes = 16384, window_block_ids = 8192;
constexpr std::int64_t any_vocabulary = std::numeric_limits<std::int32_t>::max();

// Into 64 bits, in which every type fits.
template <typename Token>
void widen(std::span<const std::byte> stored, std::span<std::int64_t> to) {
  const auto* const tokens = reinterpret_cast<const Token*>(stored.data());
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<std::int64_t>(tokens[i]);
}

void widen_as(MegatronType type, std::span<const std::byte> stored, std::span<std::int64_t> to) {
  switch (type) {
    case MegatronType::u8:
      return widen<std::uint8_t>(stored, to);
    case MegatronType::i16:
      return widen<std::int16_t>(stored, to);
    case MegatronType::i32:
      return widen<std::int32_t>(stored, to);
    case MegatronType::i64:
      return widen<std::int64_t>(stored, to);
    case MegatronType::u16:
      return widen<std::uint16_t>(stored, to);
    case MegatronType::u32:
      return widen<std::uint32_t>(stored, to);
  }
}

}  // namespace

MegatronDataset::MegatronDataset(const std::string& index_path, std::int64_t context,
                                 std::int64_t vocabulary, bool documents, std::int64_t token_bytes)
    : index_(open_megatron_index(index_path, token_bytes)),
      file_(index_.data_path),
      watch_(file_.source().descriptor(), file_.path()),
      layout_(token_samples(context, documents)),
      limit_(vocabulary > 0 ? vocabulary : any_vocabulary) {
  TRIREME_EXPECTS(context > 0, "tokens are read as windows of model.context tokens, got {}",
                  context);
  if (token_bytes > 0 && !index_.alone())
    fail(ExitCode::config, "data.token_bytes: {} has the type of its tokens; remove it",
         index_path);
  if (index_.alone() && size_of(index_.type) == 2 && vocabulary > 65536)
    fail(ExitCode::data,
         "{}: holds tokens of 2 bytes, too few for model.vocabulary: {}; write it as numpy.uint32, "
         "or set data.token_bytes: 4 if it is",
         index_path, vocabulary);
  if (index_.tokens > 0)
    size_ = static_cast<std::int64_t>((index_.tokens - 1) / static_cast<std::uint64_t>(context));
  if (size_ == 0)
    fail(ExitCode::data,
         "{}: holds {} tokens, but one sample of context {} needs {}; lower model.context",
         index_.data_path, index_.tokens, context, context + 1);
  fingerprint_ = fingerprint_of_files();
  if (!documents) return;
  borders_ = DocumentBorders(index_);
  layout_.mean_documents = borders_.mean_in(context, index_.tokens);
}

void MegatronDataset::document_starts(std::int64_t index, std::span<std::int32_t> starts) const {
  borders_.fill(static_cast<std::uint64_t>(index * layout_.inputs.count()), starts);
}

std::uint64_t MegatronDataset::fingerprint_of_files() const {
  constexpr std::uint64_t pieces = 64, piece_bytes = 4096;
  Checksum all;
  const std::array<std::uint64_t, 2> known = {index_.checksum, file_.size()};
  all.update(std::as_bytes(std::span(known)));
  std::vector<std::byte> piece(std::min(piece_bytes, file_.size()));
  for (std::uint64_t i = 0; i < pieces; ++i) {
    // A product of a size and 64 may not fit.
    const std::uint64_t last = file_.size() - piece.size();
    const std::uint64_t at = last / (pieces - 1) * i + last % (pieces - 1) * i / (pieces - 1);
    file_.read(at, piece);
    all.update(piece);
  }
  return all.value();
}

void MegatronDataset::read_ids(std::uint64_t first, std::span<std::int64_t> to) const {
  const std::size_t size = size_of(index_.type);
  alignas(8) std::array<std::byte, window_block_bytes> stored;  // NOLINT: filled by read
  while (!to.empty()) {
    const auto ids = to.first(std::min(window_block_bytes / size, to.size()));
    const auto bytes = std::span(stored).first(ids.size() * size);
    file_.read(first * size, bytes);
    widen_as(index_.type, bytes, ids);
    const auto bad =
        std::ranges::find_if(ids, [&](std::int64_t id) { return id < 0 || id >= limit_; });
    if (bad != ids.end())
      fail(ExitCode::data,
           "{}: token {} has id {}, outside {} (ids 0..{}): the data is from another tokenizer, or "
           "damaged",
           index_.data_path, first + static_cast<std::uint64_t>(bad - ids.begin()), *bad,
           limit_ == any_vocabulary ? "every vocabulary" : "model.vocabulary", limit_ - 1);
    first += ids.size();
    to = to.subspan(ids.size());
  }
}

void MegatronDataset::read(std::int64_t index, std::span<std::byte> inputs,
                           std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  file_.require_unchanged(watch_);
  const std::size_t context = targets.size();
  const std::span tokens(reinterpret_cast<std::int32_t*>(inputs.data()), context);
  const std::uint64_t first = static_cast<std::uint64_t>(index) * context;
  std::array<std::int64_t, window_block_ids> ids;  // NOLINT: filled by read_ids
  for (std::size_t done = 0; done < context + 1;) {
    const std::size_t count = std::min(window_block_ids, context + 1 - done);
    read_ids(first + done, std::span(ids).first(count));
    for (std::size_t i = 0; i < count; ++i, ++done) {
      if (done < context) tokens[done] = static_cast<std::int32_t>(ids[i]);
      if (done > 0) targets[done - 1] = static_cast<std::int32_t>(ids[i]);
    }
  }
}

Description inspect_megatron(const DataPlace& place) {
  Description found;
  for (const std::string& name : place.names) {
    const MegatronIndex index = open_megatron_index(*find_megatron_index(name));
    found.text += fmt::format(
        "{}\n  kind         tokens of {}, {} bytes each\n  tokens       {}\n  documents  "
        "  {}\n  sequences    {}\n",
        index.data_path,
        index.alone() ? "nanoGPT (its meta.pkl, which can run code, is not read)" : "Megatron-LM",
        size_of(index.type), index.tokens, index.documents, index.sequences);
    if (place.preview == 0 || index.tokens < 2) continue;
    std::vector<std::int64_t> ids(std::min({place.preview, index.tokens, longest_preview}));
    MegatronDataset(index.index_path, 1, 0).read_ids(0, ids);
    found.text += fmt::format("  preview\n    {}\n", fmt::join(ids, " "));
  }
  return found;
}

std::vector<ShardReport> verify_megatron(const DataPlace& place, const StartProgress& start) {
  constexpr std::uint64_t bytes_of_a_read = std::uint64_t{4} << 20;
  std::vector<ShardReport> all;
  for (const std::string& name : place.names) {
    ShardReport& report = all.emplace_back(ShardReport{.path = *find_megatron_index(name)});
    try {
      const MegatronIndex found = open_megatron_index(report.path);
      report.path = found.data_path;
      report.bytes = found.tokens * size_of(found.type);
      if (found.tokens < 2) continue;
      const MegatronDataset data(found.index_path, 1, 0);
      const ByteProgress progress = start("verifying", report.bytes);
      std::vector<std::int64_t> ids(std::min(bytes_of_a_read / size_of(found.type), found.tokens));
      for (std::uint64_t done = 0; done < found.tokens;) {
        const auto part =
            std::span(ids).first(std::min<std::uint64_t>(ids.size(), found.tokens - done));
        data.read_ids(done, part);
        done += part.size();
        progress(part.size() * size_of(found.type));
      }
    } catch (const Error& error) {
      report.problem = error.what();
    }
  }
  return all;
}

}  // namespace trireme
