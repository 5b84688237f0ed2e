// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of bytes into batches for threads: at document ends or line ends.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/pack/text/text_batch.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

// Finds the ends of separators in a stream that arrives in pieces (Knuth, Morris and Pratt).
class SeparatorSearch {
 public:
  // An empty separator never matches.
  explicit SeparatorSearch(std::string separator);

  void reset() { matched_ = 0; }
  // Number of bytes up to the end of the next separator, or all bytes if none ends here.
  [[nodiscard]] std::size_t next_end(std::span<const std::byte> bytes, bool& found);

 private:
  std::string separator_;
  std::vector<std::size_t> fallback_;
  std::size_t matched_ = 0;
};

inline constexpr std::size_t batch_bytes = std::size_t{1} << 20;
// A line, or a document that cannot be cut, is held whole.
inline constexpr std::size_t longest_document = std::size_t{1} << 30;

using GiveBatch = std::function<void(std::unique_ptr<TextBatch>)>;

// A document is a file, or a part of it that a separator ends.
class DocumentCutter {
 public:
  // `tokenizer`: null if tokens are bytes.
  DocumentCutter(const Tokenizer* tokenizer, std::string separator, GiveBatch give);
  // Starts the next file; `file` must stay alive.
  void begin_file(const std::string* file);
  void add(std::span<const std::byte> bytes);
  void end_file();
  void finish();  // passes on the rest

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
  std::uint64_t offset_ = 0;   // in the file, at the end of the held bytes
  std::size_t document_ = 0;   // bytes of the open document, at the end of the batch
  bool begins_ = true;         // this is the open document's first part
  std::size_t try_again_ = 0;  // bytes of the open document; no cut before them
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
