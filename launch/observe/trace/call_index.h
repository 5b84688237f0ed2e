// SPDX-License-Identifier: Apache-2.0
// Finds the calls of other ranks that belong to one of this rank.
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

  // The spans of all ranks of a collective; of a message its sending and its receiving end, as far
  // as the trace has them. `call` among them.
  [[nodiscard]] const std::vector<const FileSpan*>& same_call(const FileSpan& call) const;
  // Of a rank's receives that are under way in [begin, end], the one that ends nearest to `end`:
  // what a wait that ended there was for. Null: none.
  [[nodiscard]] const FileSpan* receive_before(int rank, std::int64_t begin,
                                               std::int64_t end) const;
  // Of its collectives the one that is under way for most of [begin, end]: those of a stream follow
  // each other, and the last one of a wait need not be what took long.
  [[nodiscard]] const FileSpan* collective_within(int rank, std::int64_t begin,
                                                  std::int64_t end) const;

 private:
  // group, number, and of messages the ranks that send and receive
  using Key = std::tuple<std::int32_t, std::int64_t, int, int>;
  [[nodiscard]] static Key key_of(const FileSpan& call);

  std::map<Key, std::vector<const FileSpan*>> calls_;
  struct OfRank {
    std::vector<const FileSpan*> collectives, receives;  // by end
  };
  std::vector<OfRank> by_rank_;
};

}  // namespace trireme
