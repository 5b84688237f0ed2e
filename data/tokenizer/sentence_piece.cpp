// SPDX-License-Identifier: Apache-2.0
// Models of SentencePiece (Kudo and Richardson, 2018), by its library.
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>

#include "data/tokenizer/char_map.h"
#include "data/tokenizer/letters.h"
#include "data/tokenizer/tokenizer_kind.h"
#include "runtime/base/error.h"

namespace trireme {

// Checks the part of a SentencePiece model that its library reads without bounds checks. Raises
// ExitCode::data, naming `path`, for a model (a ModelProto in protobuf wire format) that is
// truncated, or whose character tables (a Darts-clone trie and the texts of its leaves) some input
// could read out of bounds.
static void check_char_maps(std::string_view model, const std::string& path);

namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::string_view space_mark = "\u2581";  // represents a space in pieces

// How to encode text after a cut before a space, so that its tokens equal those of the whole text:
// the model adds a space before a text, or keeps a text's first space.
enum class Continuation : std::uint8_t { impossible, without_space, as_it_is };

class SentencePiece final : public TokenizerKind {
 public:
  SentencePiece(const std::string& content, const std::string& path) : path_(path) {
    check_char_maps(content, path);
    try {
      const auto status = processor_.LoadFromSerializedProto(content);
      if (!status.ok()) refuse(status.error_message());
    } catch (const std::exception& error) {
      refuse(error.what());
    }
    if (processor_.GetPieceSize() <= 0) refuse("it has no pieces");
    continuation_ = find_continuation();
  }

  [[nodiscard]] std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(processor_.GetPieceSize());
  }
  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId(token);
    if (id < 0 || id >= processor_.GetPieceSize() || processor_.IdToPiece(id) != token)
      return std::nullopt;
    return static_cast<std::uint32_t>(id);
  }
  [[nodiscard]] std::string text_of(std::span<const std::uint32_t> ids,
                                    bool /*begins*/) const override {
    std::string text;
    for (const std::uint32_t id : ids)
      text += piece_text(id);
    return text;
  }
  [[nodiscard]] std::size_t last_cut(std::string_view text) const override;
  [[nodiscard]] std::size_t lookahead() const override { return 0; }
  [[nodiscard]] std::unique_ptr<EncoderKind> encoder() const override;

  // A text, or text after a cut.
  void encode(std::string_view text, bool begins, std::vector<int>& ids) const {
    if (!begins && continuation_ == Continuation::without_space) text.remove_prefix(1);
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok()) refuse(status.error_message());
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    fail(ExitCode::data, "{}: is not a model that SentencePiece can use: {}", path_, why);
  }
  [[nodiscard]] std::string piece_text(std::uint32_t id) const;
  [[nodiscard]] bool pieces_begin_at_spaces() const;
  [[nodiscard]] Continuation find_continuation();

  std::string path_;
  SentencePieceProcessor processor_;
  Continuation continuation_ = Continuation::as_it_is;
};

// Then no piece crosses the boundary between a letter and a space.
bool SentencePiece::pieces_begin_at_spaces() const {
  for (int id = 0; id < processor_.GetPieceSize(); ++id) {
    std::string_view piece = processor_.IdToPiece(id);
    while (piece.starts_with(space_mark))
      piece.remove_prefix(space_mark.size());
    if (piece.find(space_mark) != std::string_view::npos ||
        piece.find(' ') != std::string_view::npos)
      return false;
  }
  return true;
}

// Tests how the model treats spaces by encoding some.
Continuation SentencePiece::find_continuation() {
  if (!pieces_begin_at_spaces()) return Continuation::impossible;
  constexpr std::array<std::pair<const char*, const char*>, 5> words = {
      {{"the", "cat"}, {"a", "x"}, {"Hello", "World"}, {"in", "the"}, {"q", "Z"}}};
  const auto fits = [&] {
    return std::ranges::all_of(words, [&](const auto& pair) {
      std::vector<int> whole, first, rest;
      const std::string behind = fmt::format(" {}", pair.second);
      encode(pair.first + behind, true, whole);
      encode(pair.first, true, first);
      encode(behind, false, rest);
      first.insert(first.end(), rest.begin(), rest.end());
      return whole == first;
    });
  };
  for (const Continuation way : {Continuation::without_space, Continuation::as_it_is}) {
    continuation_ = way;
    if (fits()) return way;
  }
  return Continuation::impossible;
}

std::string SentencePiece::piece_text(std::uint32_t id) const {
  if (id >= vocabulary()) return "";
  const int piece_id = static_cast<int>(id);
  std::string piece = processor_.IdToPiece(piece_id);
  if (processor_.IsControl(piece_id)) return "";
  if (processor_.IsUnknown(piece_id)) return " \u2047 ";  // as in the library
  if (processor_.IsByte(piece_id)) {                      // "<0x0A>"
    const int value = std::stoi(piece.substr(3, 2), nullptr, 16);
    return {static_cast<char>(value)};
  }
  for (std::size_t at = 0; (at = piece.find(space_mark, at)) != std::string::npos; ++at)
    piece.replace(at, space_mark.size(), " ");
  return piece;
}

std::size_t SentencePiece::last_cut(std::string_view text) const {
  if (continuation_ == Continuation::impossible || text.size() < 3) return 0;
  for (std::size_t at = text.size() - 2; at > 0; --at) {
    if (text[at] == ' ' && is_ascii_letter(text[at - 1]) && is_ascii_letter(text[at + 1]))
      return at;
  }
  return 0;
}

class SentencePieceEncoder final : public EncoderKind {
 public:
  explicit SentencePieceEncoder(const SentencePiece& model) : model_(model) {}
  void encode(std::string_view text, bool begins, std::vector<std::uint32_t>& ids) override {
    model_.encode(text, begins, encoded_);
    for (const int id : encoded_)
      ids.push_back(static_cast<std::uint32_t>(id));
  }
  [[nodiscard]] bool encode_part(std::string_view part, bool begins, std::string_view /*after*/,
                                 std::vector<std::uint32_t>& ids) override {
    encode(part, begins, ids);
    return true;
  }

 private:
  const SentencePiece& model_;
  std::vector<int> encoded_;
};

std::unique_ptr<EncoderKind> SentencePiece::encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

}  // namespace

std::unique_ptr<const TokenizerKind> open_sentence_piece(const std::string& content,
                                                         const std::string& path) {
  return std::make_unique<const SentencePiece>(content, path);
}

namespace {

// Fields of sentencepiece_model.proto.
constexpr std::uint64_t normalizer_field = 3, denormalizer_field = 5, char_map_field = 2;

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  fail(ExitCode::data, "{}: is not a model that SentencePiece can use: {}", path, why);
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
        refuse(path_, "it is not a Protocol Buffers message");
    }
    return field;
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) refuse(path_, "it is truncated");
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
    refuse(path_, "it is not a Protocol Buffers message");
  }

  std::string_view bytes_;
  const std::string& path_;
};

}  // namespace

void check_char_maps(std::string_view model, const std::string& path) {
  WireReader fields(model, path);
  while (const auto field = fields.next()) {
    if (field->number != normalizer_field && field->number != denormalizer_field) continue;
    WireReader inside(field->content, path);
    while (const auto part = inside.next()) {
      if (part->number == char_map_field && !is_char_map(part->content))
        refuse(path, "its table of characters is damaged");
    }
  }
}

}  // namespace trireme
