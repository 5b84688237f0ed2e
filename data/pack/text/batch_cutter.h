// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of bytes into batches for threads: whole documents, or whole lines.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/pack/text/separator_search.h"
#include "data/pack/text/text_batch.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

inline constexpr std::size_t batch_bytes = std::size_t{1} << 20;
// A document that cannot be cut, or a line, is held whole.
inline constexpr std::size_t longest_document = std::size_t{1} << 30;

using GiveBatch = std::function<void(std::unique_ptr<TextBatch>)>;

// Each file is a document, or each part of it that a separator ends.
class DocumentCutter {
 public:
  // `tokenizer`: null where tokens are bytes.
  DocumentCutter(const Tokenizer* tokenizer, std::string separator, GiveBatch give);
  // Of one file after another; `file` must stay.
  void begin_file(const std::string* file);
  void add(std::span<const std::byte> bytes);
  void end_file();
  void finish();  // gives what is left

 private:
  void add_to_document(std::span<const std::byte> bytes);
  void end_document();
  void cut_document();
  [[nodiscard]] std::size_t last_cut(std::string_view document, std::size_t ahead) const;
  void give_batch(std::string after = {});

  const Tokenizer* tokenizer_;
  SeparatorSearch search_;
  GiveBatch give_;
  std::unique_ptr<TextBatch> batch_;
  const std::string* file_ = nullptr;
  std::uint64_t offset_ = 0;   // in the file, of the end of what is there
  std::size_t document_ = 0;   // bytes of the open document at the end of the batch
  bool begins_ = true;         // the open document has no part before
  std::size_t try_again_ = 0;  // bytes of the open document, before which it is not to be cut
};

// Each line is a JSON object.
class LineCutter {
 public:
  explicit LineCutter(GiveBatch give) : give_(std::move(give)) {}
  void begin_file(const std::string* file);
  void add(std::span<const std::byte> bytes);
  void end_file();

 private:
  void give_lines(std::size_t bytes);

  GiveBatch give_;
  std::string pending_;
  std::size_t whole_lines_ = 0;  // bytes
  const std::string* file_ = nullptr;
  std::uint64_t line_ = 1;
};

}  // namespace trireme
