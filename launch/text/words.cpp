// SPDX-License-Identifier: Apache-2.0
#include "launch/text/words.h"

#include "launch/engine/state/data_record.h"
#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

}  // namespace

Words::Words(const std::string& run, std::string tokenizer, std::int64_t vocabulary)
    : vocabulary_(vocabulary) {
  if (tokenizer.empty()) tokenizer = tokenizer_of_run(run);
  bytes_ = tokenizer.empty() && vocabulary == byte_vocabulary;
  if (tokenizer.empty()) return;
  tokenizer_.emplace(tokenizer);
  require_ids_of_run(run, IdNames{tokenizer, tokenizer_->name(), {}});
  if (tokenizer_->vocabulary() > vocabulary)
    fail(ExitCode::config, "--tokenizer: {} has ids up to {}, but the model has a vocabulary of {}",
         tokenizer, tokenizer_->vocabulary() - 1, vocabulary);
}

std::vector<std::int32_t> Words::tokens_of(std::string_view text, const std::string& what) const {
  if (bytes_) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }
  if (!tokenizer_) {
    fail(ExitCode::config,
         "{}: the model has a vocabulary of {} tokens, not bytes; give its tokenizer.json with "
         "--tokenizer, or token ids instead of text",
         what, vocabulary_);
  }
  if (const std::size_t bad = first_invalid_utf8(text); bad != std::string::npos)
    fail(ExitCode::config, "{}: byte {} is not UTF-8, as the tokenizer requires", what, bad);
  std::vector<std::uint32_t> ids;
  TextEncoder(*tokenizer_).encode(text, ids);
  return {ids.begin(), ids.end()};
}

std::int32_t Words::id_of(const std::string& token, const std::string& what) const {
  const auto id = tokenizer_ ? tokenizer_->id_of(token) : std::nullopt;
  if (!id)
    fail(ExitCode::config,
         "{}: the token '{}' of the template is not in the model's tokenizer; name the template "
         "that the model was trained with",
         what, token);
  return static_cast<std::int32_t>(*id);
}

std::string Words::text_of(std::int32_t token) const {
  if (bytes_) return {static_cast<char>(token)};
  const auto id = static_cast<std::uint32_t>(token);
  return tokenizer_->text_of({&id, 1});
}

}  // namespace trireme
