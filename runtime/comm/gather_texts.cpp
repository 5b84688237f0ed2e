// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/gather_texts.h"

#include <algorithm>

#include "runtime/comm/host_stream.h"

namespace trireme {

std::vector<std::string> gather_texts(Communicator& group, std::string_view own) {
  const HostStream stream;
  const auto ranks = static_cast<std::size_t>(group.size());
  auto length = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(ranks);
  group.all_gather(*stream, {reinterpret_cast<std::byte*>(&length), DType::i64, Shape{1}},
                   {reinterpret_cast<std::byte*>(lengths.data()), DType::i64, Shape{group.size()}});
  // Everybody sends as much as the longest.
  const std::int64_t width = std::max<std::int64_t>(1, *std::ranges::max_element(lengths));
  std::string padded(own);
  padded.resize(static_cast<std::size_t>(width));
  std::string all(ranks * padded.size(), '\0');
  group.all_gather(
      *stream, {reinterpret_cast<std::byte*>(padded.data()), DType::u8, Shape{width}},
      {reinterpret_cast<std::byte*>(all.data()), DType::u8, Shape{group.size() * width}});
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  return texts;
}

}  // namespace trireme
