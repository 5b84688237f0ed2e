// SPDX-License-Identifier: Apache-2.0
// Finds other ranks' calls that belong to a call of this rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "launch/observe/trace/trace_file.h"

namespace trireme {

class CallIndex {
 public:
  explicit CallIndex(const TraceFile& trace);

  // The spans of all ranks of a collective, or of a message's two ends, if they are in the trace.
  // Includes `call`.
  [[nodiscard]] const std::vector<const FileSpan*>& same_call(const FileSpan& call) const;
  // Among a rank's receives in flight in [begin, end], the one that ends nearest to `end`: the
  // cause of a wait that ended there. Null: none.
  [[nodiscard]] const FileSpan* receive_before(int rank, std::int64_t begin,
                                               std::int64_t end) const;
  // The collective in flight for most of [begin, end]: those of a stream are sequential, and the
  // last one of a wait need not be the slow one.
  [[nodiscard]] const FileSpan* collective_within(int rank, std::int64_t begin,
                                                  std::int64_t end) const;

 private:
  // group, number, and for messages sender and receiver
  using Key = std::tuple<std::int32_t, std::int64_t, int, int>;
  [[nodiscard]] static Key key_of(const FileSpan& call);

  std::map<Key, std::vector<const FileSpan*>> calls_;
  struct OfRank {
    std::vector<const FileSpan*> collectives, receives;  // by end
  };
  std::vector<OfRank> by_rank_;
};

}  // namespace trireme
