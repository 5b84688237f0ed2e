// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/char_map_check.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Fields of sentencepiece_model.proto.
constexpr std::uint64_t normalizer_field = 3, denormalizer_field = 5, char_map_field = 2;

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  fail(ExitCode::data, "{}: is no model that SentencePiece can use: {}", path, why);
}

// The fields of a message, one by one.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  struct WireField {
    std::uint64_t number = 0;
    std::string_view content;  // of a text, bytes or nested message; empty for numbers
  };
  [[nodiscard]] std::optional<WireField> next() {
    if (bytes_.empty()) return std::nullopt;
    const std::uint64_t tag = varint();
    WireField field{.number = tag >> 3, .content = {}};
    switch (tag & 7U) {
      case 0:
        static_cast<void>(varint());
        break;
      case 1:
        static_cast<void>(take(sizeof(std::uint64_t)));
        break;
      case 2:
        field.content = take(varint());
        break;
      case 5:
        static_cast<void>(take(sizeof(std::uint32_t)));
        break;
      default:
        refuse(path_, "it is no message of Protocol Buffers");
    }
    return field;
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) refuse(path_, "it is cut");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    refuse(path_, "it is no message of Protocol Buffers");
  }

  std::string_view bytes_;
  const std::string& path_;
};

std::uint32_t word_at(std::string_view bytes, std::size_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + word * sizeof(value), sizeof(value));
  return value;
}

// Size of the trie, the trie, zero-terminated texts. A node at p with offset o has its children at
// p ^ o ^ letter, and its value, if any, at p ^ o.
void check_char_map(std::string_view map, const std::string& path) {
  if (map.empty()) return;
  constexpr std::uint32_t leaf = std::uint32_t{1} << 31, value_bits = leaf - 1, letters = 0xFF;
  const auto wrong = [&] { refuse(path, "its table of characters is damaged"); };
  if (map.size() < sizeof(std::uint32_t)) wrong();
  const std::uint32_t trie_bytes = word_at(map, 0);
  map.remove_prefix(sizeof(std::uint32_t));
  if (trie_bytes == 0 || trie_bytes > map.size() || trie_bytes % sizeof(std::uint32_t) != 0)
    wrong();
  const std::string_view texts = map.substr(trie_bytes);
  if (texts.empty() || texts.back() != '\0') wrong();
  const std::size_t nodes = trie_bytes / sizeof(std::uint32_t);
  for (std::size_t at = 0; at < nodes; ++at) {
    const std::uint32_t node = word_at(map, at);
    if ((node & leaf) != 0) {
      if ((node & value_bits) >= texts.size()) wrong();
      continue;
    }
    const std::size_t children = at ^ (std::size_t{node >> 10} << ((node & (1U << 9)) >> 6));
    if ((children | letters) >= nodes) wrong();
    const bool has_value = ((node >> 8) & 1U) != 0;
    if (has_value && (word_at(map, children) & value_bits) >= texts.size()) wrong();
  }
}

}  // namespace

void check_char_maps(std::string_view model, const std::string& path) {
  WireReader fields(model, path);
  while (const auto field = fields.next()) {
    if (field->number != normalizer_field && field->number != denormalizer_field) continue;
    WireReader inside(field->content, path);
    while (const auto part = inside.next()) {
      if (part->number == char_map_field) check_char_map(part->content, path);
    }
  }
}

}  // namespace trireme
