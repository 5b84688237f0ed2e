// SPDX-License-Identifier: Apache-2.0
// Mutations of a shard behind its checksums: changes a field in a few metadata blocks, or the
// payload, and then corrects the checksums up to a random layer, so that every layer of the reader
// meets damage that the layer below accepted.
#include <algorithm>
#include <cstring>
#include <random>

#include "data/hdf5/child.h"
#include "data/shard/block_checks.h"
#include "data/shard/shard.h"
#include "runtime/base/checksum.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/metadata_blocks.h"

namespace trireme::fuzz {
namespace {

// The position of the value of a root attribute with a fixed-size type; npos if there is none.
std::size_t value_of_attribute(const std::string& file, const std::string& name) {
  constexpr std::size_t head = 9;  // version, flags, three lengths, character set
  const std::size_t at = file.find(name + '\0');
  if (at == std::string::npos || at < head || file[at - head] != 3) return std::string::npos;
  std::uint16_t lengths[3] = {};  // of name, type, space
  std::memcpy(lengths, file.data() + at - 7, sizeof(lengths));
  const std::size_t value = at + lengths[0] + lengths[1] + lengths[2];
  return value + 8 <= file.size() ? value : std::string::npos;
}

class ShardMutation {
 public:
  ShardMutation(std::string file, std::size_t max_bytes, unsigned seed)
      : file_(std::move(file)), max_bytes_(max_bytes), random_(seed) {}

  std::string run() {
    for (std::size_t edits = 1 + below(3); edits > 0; --edits)
      edit();
    // Checksums to correct: none, metadata, payload too, header too.
    const std::size_t depth = below(8);
    if (depth > 0) repair_metadata();
    if (depth > 1) repair_sums(depth > 2);
    return std::move(file_);
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % std::max<std::size_t>(limit, 1); }

  void edit() {
    blocks_ = metadata_blocks(file_);
    const std::size_t kind = below(16);
    if (kind == 0 || blocks_.empty()) {  // anything, also lengths
      file_.resize(std::max(file_.size(), max_bytes_));
      file_.resize(mutate(0, file_size_before(), max_bytes_));
    } else if (kind == 1) {  // anywhere, in place
      edit_range(below(file_.size()), 1 + below(64));
    } else {
      const MetadataBlock& block = blocks_[below(blocks_.size())];
      const std::size_t at = block.first + below(block.bytes);
      edit_range(at, std::min(block.first + block.bytes - at, 1 + below(24)));
    }
    size_ = file_.size();
  }

  [[nodiscard]] std::size_t file_size_before() const { return size_; }

  std::size_t mutate(std::size_t at, std::size_t bytes, std::size_t most) {
    return LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(file_.data()) + at, bytes, most);
  }

  void put(std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::memcpy(file_.data() + at, &value, std::min(bytes, file_.size() - at));
  }

  // Keeps the file's length.
  void edit_range(std::size_t at, std::size_t bytes) {
    if (at >= file_.size()) return;
    bytes = std::min(bytes, file_.size() - at);
    const std::size_t width = std::size_t{1} << below(4);
    switch (below(5)) {
      case 0:
        static_cast<void>(mutate(at, bytes, bytes));
        break;
      case 1: {  // the ends of ranges
        const std::uint64_t near_zero = below(4), near_power = std::uint64_t{1} << below(64);
        const std::uint64_t values[] = {near_zero, ~near_zero, near_power, near_power - 1,
                                        file_.size() - below(64)};
        put(at, values[below(std::size(values))], width);
        break;
      }
      case 2:  // another block's address: cycles and swapped blocks
        if (!blocks_.empty()) put(at, blocks_[below(blocks_.size())].first, 8);
        break;
      case 3: {
        const std::size_t from = below(file_.size());
        std::memmove(file_.data() + at, file_.data() + from,
                     std::min({bytes, file_.size() - from, file_.size() - at}));
        break;
      }
      default: {  // slightly more or less
        std::uint64_t value = 0;
        std::memcpy(&value, file_.data() + at, std::min(width, file_.size() - at));
        put(at, value + below(33) - 16, width);
        break;
      }
    }
  }

  void repair_metadata() {
    for (const MetadataBlock& block : metadata_blocks(file_))
      repair(file_, block);
    // Blocks with a changed length.
    for (const MetadataBlock& block : blocks_)
      if (block.first + block.bytes <= file_.size() && below(4) == 0) repair(file_, block);
  }

  void repair_sums(bool header) {
    try {
      repair_payload();
      repair_metadata();
      if (header) repair_header();
      repair_metadata();
    } catch (const Error&) {  // the path to it is damaged
    }
  }

  void set_attribute(const std::string& name, std::uint64_t value) {
    const std::size_t at = value_of_attribute(file_, name);
    if (at != std::string::npos) put(at, value, 8);
  }

  [[nodiscard]] ShardFacts facts() const {
    memory_.set(file_);
    return Hdf5Child::shared()->shard(memory_.path());
  }

  [[nodiscard]] std::string content(const ShardFacts& facts, std::string_view name) const {
    const auto set = std::ranges::find(facts.datasets, name, &ShardDataset::name);
    if (set == facts.datasets.end() || set->address > file_.size() ||
        set->bytes > file_.size() - set->address)
      return {};
    return file_.substr(set->address, set->bytes);
  }

  void repair_payload() {
    const ShardFacts found = facts();
    std::string payload;
    for (const char* const name : {"tokens", "document_offsets", "images", "labels"})
      payload += content(found, name);
    const std::uint64_t checksum = checksum_of(payload);
    set_attribute("payload_xxh3", checksum);
    if (below(2) == 0) repair_table(found, checksum);
  }

  void repair_table(const ShardFacts& found, std::uint64_t payload) {
    const auto set = std::ranges::find(found.datasets, "block_checksums", &ShardDataset::name);
    const std::size_t size_at = value_of_attribute(file_, "block_bytes");
    if (set == found.datasets.end() || size_at == std::string::npos) return;
    std::uint64_t block_bytes = 0;
    std::memcpy(&block_bytes, file_.data() + size_at, 8);
    if (block_bytes == 0) return;
    BlockSums sums;
    const auto add = [&](const char* name, std::uint64_t bytes_of_block) {
      const std::string bytes = content(found, name);
      sums.add(std::as_bytes(std::span(bytes)), bytes_of_block);
      if (!bytes.empty()) sums.end_block();
    };
    for (const char* const name : {"tokens", "images"})
      add(name, block_bytes);
    for (const char* const name : {"document_offsets", "labels"})
      add(name, index_block_bytes);
    const std::size_t bytes = sums.table().size() * sizeof(std::uint32_t);
    if (set->address > file_.size() || bytes > file_.size() - set->address) return;
    if (bytes > 0 && below(4) > 0)
      std::memcpy(file_.data() + set->address, sums.table().data(), bytes);
    set_attribute("block_checksums_xxh3", table_checksum(block_bytes, payload, sums.table()));
  }

  void repair_header() {
    const ShardFacts found = facts();
    std::string text;
    for (const char* const name :
         {"format", "version", "kind", "dtype", "shard_index", "shard_count", "count", "documents",
          "continues", "tokenizer", "vocabulary", "height", "width", "channels", "classes",
          "payload_xxh3"}) {
      const auto at = std::ranges::find(found.attributes, name, &ShardAttribute::name);
      if (at == found.attributes.end()) continue;
      const bool is_text = at->kind == ShardAttribute::Kind::text;
      text += fmt::format("{}={}\n", name, is_text ? at->text : std::to_string(at->number));
    }
    set_attribute("header_xxh3", checksum_of(text));
  }

  static const MemoryFile memory_;
  std::string file_;
  std::size_t max_bytes_;
  std::size_t size_ = file_.size();
  std::mt19937 random_;
  std::vector<MetadataBlock> blocks_;
};

const MemoryFile ShardMutation::memory_;

}  // namespace
}  // namespace trireme::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_bytes, unsigned seed) {
  using namespace trireme::fuzz;
  std::string file = ShardMutation(std::string(text_of(data, size)), max_bytes, seed).run();
  file.resize(std::min(file.size(), max_bytes));
  std::memcpy(data, file.data(), file.size());
  return file.size();
}
