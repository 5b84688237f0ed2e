// SPDX-License-Identifier: Apache-2.0
// run-ID.wandb, the file that `wandb sync` sends: Record messages
// (wandb/proto/wandb_internal.proto) in the blocks of LevelDB's log format, behind a header of
// W&B's own and with zlib's CRC-32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/protobuf_writer.h"
#include "runtime/telemetry/export/append_file.h"

namespace trireme {

// Field numbers of wandb_internal.proto.
namespace wandb {
inline constexpr int record_num = 1, record_history = 2, record_summary = 3, record_run = 17,
                     record_exit = 18, record_final = 20, record_preempting = 23;
inline constexpr int history_item = 1, history_step = 2, step_num = 1;
inline constexpr int item_key = 1, item_json = 16;  // of history, summary and config alike
inline constexpr int summary_update = 1, config_update = 1;
inline constexpr int run_id = 1, run_project = 3, run_config = 4, run_display_name = 8,
                     run_host = 13, run_start_time = 17, time_seconds = 1, time_nanos = 2;
inline constexpr int exit_code = 1, exit_runtime = 2;
}  // namespace wandb

class WandbFile {
 public:
  // A run that goes on after `done` steps keeps the records of its file up to them; what is there
  // and is no such file is replaced.
  WandbFile(const OutputDirectory& directory, const std::string& name,
            std::optional<std::int64_t> done);

  // Records of what an earlier start wrote; 0 where the file is new.
  [[nodiscard]] std::int64_t records() const { return records_; }
  // Adds a Record: `content` is the field of its kind.
  void add(ProtobufWriter content);
  void flush() { file_.flush(); }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  void keep_up_to(std::int64_t done);

  AppendFile file_;
  std::int64_t records_ = 0;
};

}  // namespace trireme
