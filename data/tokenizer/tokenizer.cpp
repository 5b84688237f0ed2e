// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/tokenizer/tokenizer_kind.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

bool is_sentence_piece(const std::string& path) {
  return path.ends_with(".model");
}

std::string name_of_file(const std::string& path, const std::string& content) {
  return fmt::format("{}:{}:xxh3={:016x}",
                     is_sentence_piece(path) ? "sentencepiece" : "huggingface",
                     std::filesystem::path(path).filename().string(), checksum_of(content));
}

}  // namespace

std::string tokenizer_name(const std::string& path) {
  const std::string content = read_whole_file(path, largest_file, ExitCode::data);
  try {
    return Tokenizer(path).name();
  } catch (const Error&) {
    return name_of_file(path, content);
  }
}

Tokenizer::Tokenizer(const std::string& path) : path_(path) {
  const std::string content = read_whole_file(path, largest_file, ExitCode::data);
  kind_ = is_sentence_piece(path) ? open_sentence_piece(content, path)
                                  : open_tokenizer_json(content, path);
  name_ = name_of_file(path, content);
  if (const auto meaning = kind_->meaning()) name_ += fmt::format(":tokens={:016x}", *meaning);
}
Tokenizer::~Tokenizer() = default;

const std::string& Tokenizer::name() const {
  return name_;
}

std::uint32_t Tokenizer::vocabulary() const {
  return kind_->vocabulary();
}

std::optional<std::uint32_t> Tokenizer::id_of(std::string_view token) const {
  return kind_->id_of(token);
}

std::string Tokenizer::text_of(std::span<const std::uint32_t> ids, bool begins) const {
  return kind_->text_of(ids, begins);
}

bool Tokenizer::keeps_text() const {
  return kind_->keeps_text();
}

TextFrame Tokenizer::frame(bool pair) const {
  return parse_frame(kind_->post_processor(), pair, path_);
}

std::size_t Tokenizer::last_cut(std::string_view text) const {
  return kind_->last_cut(text);
}

std::size_t Tokenizer::lookahead() const {
  return kind_->lookahead();
}

TextEncoder::TextEncoder(const Tokenizer& tokenizer) : kind_(tokenizer.kind_->encoder()) {}
TextEncoder::~TextEncoder() = default;
TextEncoder::TextEncoder(TextEncoder&&) noexcept = default;

void TextEncoder::encode(std::string_view text, std::vector<std::uint32_t>& ids, bool begins) {
  kind_->encode(text, begins, ids);
}

bool TextEncoder::encode_part(std::string_view part, bool begins, std::string_view after,
                              std::vector<std::uint32_t>& ids) {
  return kind_->encode_part(part, begins, after, ids);
}

}  // namespace trireme
