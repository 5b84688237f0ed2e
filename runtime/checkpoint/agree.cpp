// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/agree.h"

#include <fmt/format.h>

namespace trireme {
namespace {

// Only read when the text is sent: Tensor has no const form.
Tensor view_of(const std::string& text) {
  return {reinterpret_cast<std::byte*>(const_cast<char*>(text.data())), DType::u8,
          Shape{static_cast<std::int64_t>(text.size())}};
}

Tensor view_of(std::vector<std::int64_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::i64,
          Shape{static_cast<std::int64_t>(values.size())}};
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& group, const HostStream& stream,
                                      const std::string& mine) {
  std::vector<std::int64_t> own{static_cast<std::int64_t>(mine.size())};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(group.size()));
  group.all_gather(*stream, view_of(own), view_of(sizes));
  if (group.rank() != 0) {
    if (!mine.empty()) group.send(*stream, view_of(mine), 0);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int from = 1; from < group.size(); ++from) {
    texts.emplace_back(static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]), '\0');
    if (!texts.back().empty()) group.recv(*stream, view_of(texts.back()), from);
  }
  return texts;
}

std::string share_text(Communicator& group, const HostStream& stream, const std::string& text) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(text.size())};
  group.broadcast(*stream, view_of(size), 0);
  std::string shared = text;
  shared.resize(static_cast<std::size_t>(size[0]));
  if (size[0] > 0) group.broadcast(*stream, view_of(shared), 0);
  return shared;
}

std::vector<std::string> share_texts(Communicator& group, const HostStream& stream,
                                     const std::string& mine) {
  std::vector<std::string> texts = gather_texts(group, stream, mine);
  texts.resize(static_cast<std::size_t>(group.size()));
  for (std::string& text : texts)
    text = share_text(group, stream, text);
  return texts;
}

std::string first_problem(Communicator& group, const HostStream& stream, const std::string& mine) {
  std::string first;
  const std::vector<std::string> problems = gather_texts(group, stream, mine);
  for (std::size_t rank = problems.size(); rank-- > 0;) {
    if (!problems[rank].empty()) first = fmt::format("rank {}: {}", rank, problems[rank]);
  }
  return share_text(group, stream, first);
}

}  // namespace trireme
