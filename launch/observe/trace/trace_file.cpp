// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/trace/trace_file.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/trace/trace_json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t longest_line = std::size_t{1} << 20U;
constexpr std::string_view suffix = ".json.gz";

// The lines of a plain or compressed file.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), buffer_(longest_line, '\0') {
    const FileDescriptor file = open_regular_file(path, ExitCode::config);
    const int own = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    if (own < 0) system_failed("fcntl", path, ExitCode::config);
    file_.reset(::gzdopen(own, "rb"));
    if (!file_) fail(ExitCode::config, "{}: cannot be read: out of memory", path);
    ::gzbuffer(file_.get(), 1U << 17U);
  }

  // Without line end and preceding comma. Empty at the end of the file.
  std::optional<std::string_view> next() {
    if (::gzgets(file_.get(), buffer_.data(), static_cast<int>(buffer_.size())) == nullptr) {
      int error = Z_OK;
      const char* const reason = ::gzerror(file_.get(), &error);
      if (error != Z_OK && error != Z_STREAM_END) cut_off(reason);
      return std::nullopt;
    }
    std::string_view line = buffer_.c_str();
    if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    if (!line.empty() && line.back() == ',') line.remove_suffix(1);
    return line;
  }
  [[noreturn]] void cut_off(std::string_view reason) const {
    fail(ExitCode::data,
         "{}: is damaged or ends too early ({}); a run never writes part of a trace, so copy it "
         "again",
         path_, reason);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose_r(file); }
  };
  const std::string& path_;
  std::string buffer_;
  std::unique_ptr<gzFile_s, Close> file_;
};

[[noreturn]] void foreign(const std::string& path) {
  fail(ExitCode::data,
       "{}: is not a trace of a Trireme run; name RUN_DIR, or a file of RUN_DIR/trace such as "
       "steps_10-12.json.gz (the files in its .kineto directories are for other tools)",
       path);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : lines_(path) { file_.path = path; }

  TraceFile read() {
    head();
    bool whole = false;
    while (const auto line = lines_.next()) {
      if (*line == "]}") whole = true;
      if (line->starts_with("{\"ph\"")) event(*line);
    }
    if (!whole) lines_.cut_off("the end is missing");
    return std::move(file_);
  }

 private:
  void head() {
    const auto line = lines_.next();
    const auto mark = fmt::format("\"otherData\":{{\"{}\":", trace_mark);
    if (!line || line->find(mark) == std::string_view::npos) foreign(file_.path);
    try {
      const json facts =
          parse_json(std::string(*line) + "}").at("otherData").at(std::string(trace_mark));
      const int version = facts.at("version").get<int>();
      if (version != trace_version)
        fail(ExitCode::data, "{}: is a trace of version {}, but this program reads version {}",
             file_.path, version, trace_version);
      file_.first_step = facts.at("steps").at(0).get<std::int64_t>();
      file_.last_step = facts.at("steps").at(1).get<std::int64_t>();
      file_.ranks = facts.at("ranks").get<int>();
      const json& mesh = facts.at("mesh");
      file_.data = mesh.at("data").get<int>();
      file_.tensor = mesh.at("tensor").get<int>();
      file_.pipeline = mesh.at("pipeline").get<int>();
      file_.device = facts.at("device").get<std::string>();
      file_.clock_error_us = facts.at("clock_error_us").get<double>();
    } catch (const json::exception&) {
      lines_.cut_off("its first line");
    }
    if (file_.ranks < 1 || file_.ranks > most_ranks || file_.data < 1 || file_.tensor < 1)
      lines_.cut_off("its first line");
    file_.processes.resize(static_cast<std::size_t>(file_.ranks));
  }

  void event(std::string_view line) {
    try {
      const json event = parse_json(line);
      const std::string& phase = event.at("ph").get_ref<const std::string&>();
      if (phase == "X") return span(event);
      if (phase == "M" && event.at("name") == "process_name")
        file_.processes.at(event.at("pid").get<std::size_t>()) =
            event.at("args").at("name").get<std::string>();
    } catch (const json::exception&) {
      lines_.cut_off("a line that is not of a trace");
    } catch (const std::out_of_range&) {
      lines_.cut_off("an invalid rank");
    }
  }

  void span(const json& event) {
    const json& args = event.at("args");
    const auto number = [&](const char* name, std::int64_t missing) {
      return args.value(name, missing);
    };
    const auto nanoseconds = [&](const char* name) {
      return static_cast<std::int64_t>(std::llround(1e3 * event.at(name).get<double>()));
    };
    FileSpan span{.kind = kind_named(args.at("kind").get_ref<const std::string&>()),
                  .rank = event.at("pid").get<int>(),
                  .thread = event.at("tid").get<int>(),
                  .name = index_of(event.at("name").get_ref<const std::string&>()),
                  .begin = nanoseconds("ts"),
                  .step = number("step", -1),
                  .chunk = static_cast<int>(number("chunk", -1)),
                  .micro_batch = static_cast<int>(number("micro_batch", -1)),
                  .group_size = static_cast<int>(number("group_size", 1)),
                  .peer = static_cast<int>(number("peer", -1)),
                  .root = static_cast<int>(number("root", -1)),
                  .number = number("number", -1),
                  .bytes = number("bytes", 0)};
    span.end = span.begin + std::max<std::int64_t>(0, nanoseconds("dur"));
    if (const auto group = args.find("group"); group != args.end())
      span.group = index_of(group->get_ref<const std::string&>());
    if (span.rank < 0 || span.rank >= file_.ranks || span.peer >= file_.ranks)
      lines_.cut_off("an invalid rank");
    file_.spans.push_back(span);
  }

  SpanKind kind_named(std::string_view name) {
    for (std::size_t i = 0; i < span_kinds; ++i) {
      if (trireme::name_of(static_cast<SpanKind>(i)) == name) return static_cast<SpanKind>(i);
    }
    lines_.cut_off("a span of an unknown kind");
  }
  std::int32_t index_of(const std::string& name) {
    const auto [place, is_new] =
        indices_.try_emplace(name, static_cast<std::int32_t>(file_.names.size()));
    if (is_new) file_.names.push_back(name);
    return place->second;
  }

  static constexpr int most_ranks = 1 << 20;
  Lines lines_;
  TraceFile file_;
  std::map<std::string, std::int32_t> indices_;
};

}  // namespace

std::string find_trace(const std::string& place) {
  std::error_code error;
  const fs::file_status status = fs::status(place, error);
  if (!fs::exists(status))
    fail(ExitCode::config, "{}: {}; name a run directory or a trace", place,
         error ? error.message() : "does not exist");
  if (!fs::is_directory(status)) return place;
  const fs::path traces = RunDirectory::traces_in(place);
  const fs::path directory = fs::is_directory(traces, error) ? traces : fs::path(place);
  std::vector<fs::directory_entry> found;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step") && name.ends_with(suffix)) found.push_back(*entry);
  }
  if (found.empty())
    fail(ExitCode::config,
         "{}: has no trace{}; a run writes one with --set telemetry.trace=10-12 (steps 10 to 12)",
         place, error ? " that can be read (" + error.message() + ")" : "");
  const auto written = [](const fs::directory_entry& entry) {
    std::error_code gone;
    return entry.last_write_time(gone);
  };
  return std::ranges::max(found, {}, written).path().string();
}

TraceFile read_trace(const std::string& path) {
  return Reader(path).read();
}

}  // namespace trireme
