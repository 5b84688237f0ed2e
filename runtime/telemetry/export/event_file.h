// SPDX-License-Identifier: Apache-2.0
// Event files, which TensorBoard reads: events.out.tfevents.SECONDS.HOST.PID, TFRecords of Event
// messages (tensorflow/core/util/event.proto). TensorBoard reads the files of a directory in name
// order, as one run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"
#include "runtime/base/protobuf_writer.h"

namespace trireme {

// An append-only file. Each flush is one write(); a failed one is undone, so the file always ends
// where a flush ended, whatever ends the process.
class AppendFile {
 public:
  // Creates `name`, or appends to it unless `flags` have O_EXCL.
  AppendFile(const OutputDirectory& directory, const std::string& name, int flags = 0);

  void add(std::string_view bytes) { waiting_ += bytes; }
  // Raises ExitCode::internal if the write fails (disk full); the pending bytes are dropped.
  void flush();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::string waiting_;
};

// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);
// TFRecord: length, its masked CRC-32C, bytes, their masked CRC-32C; all little-endian.
[[nodiscard]] std::string tf_record(std::string_view bytes);

// A summary's tag; its description is written at its first use.
struct SummaryTag {
  std::string name;         // "train/loss"
  std::string description;  // Markdown
  bool described = false;   // in this file
};

// One event: values of one step. Each message is encoded when it is added.
class SummaryEvent {
 public:
  SummaryEvent(std::chrono::system_clock::time_point time, std::int64_t step);
  void scalar(SummaryTag& tag, double value);
  // Markdown.
  void text(std::string_view tag, std::string_view text);
  // Rows of (left edge, right edge, count), edges ascending.
  void histogram(std::string_view tag, std::span<const double> rows);
  // A PNG file; `description`: Markdown.
  void image(std::string_view tag, std::string_view description, std::int64_t width,
             std::int64_t height, std::string_view png);
  [[nodiscard]] bool empty() const { return summary_.bytes().empty(); }
  [[nodiscard]] std::string record() const;

 private:
  void metadata(std::string_view plugin, std::string_view description, int data_class);

  ProtobufWriter event_;
  ProtobufWriter summary_;
};

class EventFile {
 public:
  // A new file, whose name sorts after the existing ones. If a run resumes after `done` steps, the
  // file tells TensorBoard to drop later steps of earlier files. Flushed.
  EventFile(const OutputDirectory& directory, std::optional<std::int64_t> done,
            std::chrono::system_clock::time_point now);

  void add(const SummaryEvent& event) { file_.add(event.record()); }
  void flush() { file_.flush(); }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace trireme
