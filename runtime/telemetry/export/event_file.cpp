// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/telemetry/lines/line_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Field numbers of event.proto, summary.proto, tensor.proto and their enums.
constexpr int event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5,
              event_session_log = 7, session_log_status = 1, status_start = 1;
constexpr int summary_value = 1, value_tag = 1, value_simple = 2, value_tensor = 8,
              value_metadata = 9;
constexpr int metadata_plugin = 1, plugin_name = 1, metadata_description = 3, metadata_class = 4;
constexpr int class_scalar = 1, class_tensor = 2, class_blobs = 3;
constexpr int tensor_dtype = 1, tensor_shape = 2, tensor_doubles = 6, tensor_strings = 8,
              shape_dimension = 2, dimension_size = 1, dtype_double = 2, dtype_string = 7;

constexpr std::string_view prefix = "events.out.tfevents.";

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[byte] = crc;
  }
  return table;
}();

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes(sizeof value, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value = static_cast<Unsigned>(value >> 8);
  }
  return bytes;
}

// A CRC over data that contains its CRC is weak; so TFRecords store it rotated and offset.
std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian((crc >> 15 | crc << 17) + 0xa282ead8U);
}

double seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Of the directory's last event file; 0: none.
std::int64_t last_seconds(const OutputDirectory& directory) {
  std::int64_t last = 0;
  std::error_code error;
  for (fs::directory_iterator entry(directory.path(), error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::int64_t seconds = 0;
    if (!name.starts_with(prefix)) continue;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), seconds);
    last = std::max(last, seconds);
  }
  return last;
}

// The name sorts after earlier files even if the clock was set back.
std::string name_in(const OutputDirectory& directory, std::chrono::system_clock::time_point now) {
  const auto seconds = static_cast<std::int64_t>(seconds_of(now));
  return fmt::format("{}{:010}.{}.{}", prefix, std::max(seconds, last_seconds(directory) + 1),
                     host_name(), ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  std::string record = little_endian(static_cast<std::uint64_t>(bytes.size()));
  record += masked_crc(record);
  record += bytes;
  record += masked_crc(bytes);
  return record;
}

SummaryEvent::SummaryEvent(std::chrono::system_clock::time_point time, std::int64_t step) {
  event_.float64(event_wall_time, seconds_of(time));
  event_.integer(event_step, step);
}

void SummaryEvent::metadata(std::string_view plugin, std::string_view description, int data_class) {
  summary_.message(value_metadata, [&] {
    summary_.message(metadata_plugin, [&] { summary_.text(plugin_name, plugin); });
    if (!description.empty()) summary_.text(metadata_description, description);
    summary_.integer(metadata_class, data_class);
  });
}

void SummaryEvent::scalar(SummaryTag& tag, double value) {
  summary_.message(summary_value, [&] {
    summary_.text(value_tag, tag.name);
    summary_.float32(value_simple, static_cast<float>(value));
    if (!tag.described) metadata("scalars", tag.description, class_scalar);
  });
  tag.described = true;
}

void SummaryEvent::text(std::string_view tag, std::string_view text) {
  summary_.message(summary_value, [&] {
    summary_.text(value_tag, tag);
    summary_.message(value_tensor, [&] {
      summary_.integer(tensor_dtype, dtype_string);
      summary_.message(tensor_shape, [] {});
      summary_.text(tensor_strings, text);
    });
    metadata("text", "", class_tensor);
  });
}

void SummaryEvent::histogram(std::string_view tag, std::span<const double> rows) {
  constexpr std::int64_t columns = 3;
  summary_.message(summary_value, [&] {
    summary_.text(value_tag, tag);
    summary_.message(value_tensor, [&] {
      summary_.integer(tensor_dtype, dtype_double);
      summary_.message(tensor_shape, [&] {
        for (const std::int64_t size : {static_cast<std::int64_t>(rows.size()) / columns, columns})
          summary_.message(shape_dimension, [&] { summary_.integer(dimension_size, size); });
      });
      summary_.packed(tensor_doubles, rows);
    });
    metadata("histograms", "", class_tensor);
  });
}

void SummaryEvent::image(std::string_view tag, std::string_view description, std::int64_t width,
                         std::int64_t height, std::string_view png) {
  summary_.message(summary_value, [&] {
    summary_.text(value_tag, tag);
    summary_.message(value_tensor, [&] {
      summary_.integer(tensor_dtype, dtype_string);
      summary_.message(tensor_shape, [&] {
        summary_.message(shape_dimension, [&] { summary_.integer(dimension_size, 3); });
      });
      for (const std::string& part : {std::to_string(width), std::to_string(height)})
        summary_.text(tensor_strings, part);
      summary_.text(tensor_strings, png);
    });
    metadata("images", description, class_blobs);
  });
}

std::string SummaryEvent::record() const {
  ProtobufWriter event = event_;
  event.text(event_summary, summary_.bytes());
  return tf_record(event.bytes());
}

EventFile::EventFile(const OutputDirectory& directory, std::optional<std::int64_t> done,
                     std::chrono::system_clock::time_point now)
    : file_(directory, name_in(directory, now), O_EXCL) {
  ProtobufWriter version;
  version.float64(event_wall_time, seconds_of(now));
  version.text(event_file_version, "brain.Event:2");
  file_.add(tf_record(version.bytes()));
  if (done) {
    ProtobufWriter start;
    start.float64(event_wall_time, seconds_of(now));
    start.integer(event_step, *done + 1);  // the first step to drop
    start.message(event_session_log, [&] { start.integer(session_log_status, status_start); });
    file_.add(tf_record(start.bytes()));
  }
  file_.flush();
}

AppendFile::AppendFile(const OutputDirectory& directory, const std::string& name, int flags)
    : path_(directory.path_of(name)),
      file_(directory.open(name, O_WRONLY | O_CREAT | O_APPEND | flags)) {}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  append_whole(file_, path_, std::exchange(waiting_, {}));
}

}  // namespace trireme
