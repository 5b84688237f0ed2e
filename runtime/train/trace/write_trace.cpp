// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trace/write_trace.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/base/log.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/trace/gzip_parts.h"
#include "runtime/telemetry/trace/trace_json.h"

namespace trireme {
namespace {

Tensor bytes_of(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), DType::u8,
          Shape{static_cast<std::int64_t>(text.size())}};
}
Tensor bytes_of(std::int64_t& number) {
  return {reinterpret_cast<std::byte*>(&number), DType::i64, Shape{1}};
}

void send_text(Communicator& world, Stream& stream, std::string text) {
  auto length = static_cast<std::int64_t>(text.size());
  world.send(stream, bytes_of(length), 0);
  world.send(stream, bytes_of(text), 0);
}

std::string receive_text(Communicator& world, Stream& stream, int from) {
  std::int64_t length = 0;
  world.recv(stream, bytes_of(length), from);
  std::string text(static_cast<std::size_t>(length), '\0');
  world.recv(stream, bytes_of(text), from);
  return text;
}

// The files of a trace. After the first error further data is only received.
class TraceFiles {
 public:
  TraceFiles(std::string directory, const TraceFacts& facts)
      : name_(facts.first_step == facts.last_step
                  ? fmt::format("{}/step_{}", directory, facts.first_step)
                  : fmt::format("{}/steps_{}-{}", directory, facts.first_step, facts.last_step)) {
    attempt([&] {
      RunDirectory::create(name_ + ".kineto");
      all_.emplace(path());
      all_->write(perfetto_begin(facts));
    });
  }
  void add(int rank, const DeflatedText& perfetto, const DeflatedText& kineto) {
    attempt([&] {
      all_->write(perfetto);
      GzipFile file(fmt::format("{}.kineto/rank_{}.pt.trace.json.gz", name_, rank));
      file.write(kineto);
      file.commit();
    });
  }
  bool commit() {
    attempt([&] {
      all_->write(perfetto_end());
      all_->commit();
    });
    return good_;
  }
  [[nodiscard]] std::string path() const { return name_ + ".json.gz"; }

 private:
  template <typename Action>
  void attempt(Action action) {
    if (!good_) return;
    try {
      action();
    } catch (const Error& error) {  // a failed trace must not end a run
      good_ = false;
      log::get("trace").warn("the trace was not written: {}", error.what());
    }
  }

  std::string name_;
  std::optional<GzipFile> all_;
  bool good_ = true;
};

void announce(const TraceFiles& files, const TraceFacts& facts, std::int64_t lost) {
  double error = 0;
  for (std::size_t rank = 0; rank < facts.clocks.size(); ++rank) {
    const TraceClockFacts& clock = facts.clocks[rank];
    error = std::max(error, clock.error_us);
    if (clock.jumped)
      log::get("trace").warn("the clock of rank {} was set while steps were traced", rank);
  }
  log::get("trace").info(
      "steps {} to {} of {} rank(s) are in {} (ui.perfetto.dev, trireme trace summary); clocks "
      "agree to {:.2f} us",
      facts.first_step, facts.last_step, facts.ranks, files.path(), error);
  if (lost > 0)
    log::get("trace").warn(
        "{} spans did not fit and are missing; trace fewer steps to record all spans", lost);
}

}  // namespace

void write_trace(Communicator& world, const std::string& directory, const RankTrace& trace,
                 const TraceFacts& facts) {
  const ScopedCommLabel label("trace");
  const HostStream stream;
  DeflatedText perfetto = deflate_text(perfetto_part(trace));
  DeflatedText kineto = deflate_text(kineto_json(trace, facts));
  std::int64_t lost = trace.lost;
  world.all_reduce(*stream, bytes_of(lost), bytes_of(lost), ReduceOp::max);
  if (world.rank() > 0) {
    send_text(world, *stream, pack(perfetto));
    send_text(world, *stream, pack(kineto));
    return;
  }
  TraceFiles files(directory, facts);
  files.add(0, perfetto, kineto);
  for (int rank = 1; rank < world.size(); ++rank) {
    perfetto = unpack(receive_text(world, *stream, rank));
    kineto = unpack(receive_text(world, *stream, rank));
    files.add(rank, perfetto, kineto);
  }
  if (files.commit()) announce(files, facts, lost);
}

}  // namespace trireme
