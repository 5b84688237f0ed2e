// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/shared_index.h"

#include <algorithm>
#include <thread>

#include "data/index_archive.h"
#include "runtime/base/error.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

using Texts = std::vector<std::string>;

std::string joined(Texts texts) {
  std::string bytes;
  IndexWriter writer(bytes);
  writer(texts);
  return bytes;
}

Texts parted(std::string_view bytes) {
  Texts texts;
  IndexParser(bytes, "the index of a rank")(texts);
  return texts;
}

}  // namespace

std::size_t scanners_here(int ranks) {
  constexpr std::size_t most = 8;
  if (ranks > 1) return 1;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most);
}

std::vector<std::string> share_indexes(Communicator& world, const IndexWork& work) {
  Texts files, indexes;  // an index is never empty: "" means unknown
  if (world.rank() == 0) {
    files = work.list();
    auto known = work.known(files);
    for (const std::string& file : files)
      indexes.push_back(std::move(known[file]));
  }
  files = parted(broadcast_text(world, joined(std::move(files)), 0));
  indexes = parted(broadcast_text(world, joined(std::move(indexes)), 0));
  Texts missing;
  std::vector<std::string*> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!indexes.at(i).empty()) continue;
    missing.push_back(files[i]);
    places.push_back(&indexes[i]);
  }
  if (missing.empty()) return indexes;
  const auto ranks = static_cast<std::size_t>(world.size()),
             rank = static_cast<std::size_t>(world.rank());
  const std::size_t first = missing.size() * rank / ranks,
                    end = missing.size() * (rank + 1) / ranks;
  auto next = places.begin();
  const auto scan_own = [&] {
    return joined(
        work.scan(std::span(missing).subspan(first, end - first), scanners_here(world.size())));
  };
  for (const std::string& text : gather_or_raise(world, scan_own)) {
    for (std::string& index : parted(text))
      **next++ = std::move(index);
  }
  return indexes;
}

}  // namespace trireme
