// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/gather_texts.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

std::vector<std::string> gather_texts(Communicator& group, std::string_view own) {
  const HostStream stream;
  const auto ranks = static_cast<std::size_t>(group.size());
  auto length = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(ranks);
  group.all_gather(*stream, {reinterpret_cast<std::byte*>(&length), DType::i64, Shape{1}},
                   {reinterpret_cast<std::byte*>(lengths.data()), DType::i64, Shape{group.size()}});
  // All ranks send the length of the longest text.
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

std::vector<std::string> gather_or_raise(Communicator& group,
                                         const std::function<std::string()>& make) {
  ExitCode code = ExitCode::ok;
  std::string own;
  try {
    own = make();
  } catch (const Error& error) {
    code = error.code();
    own = error.what();
  }
  // Appends the result code to the text.
  own.append(reinterpret_cast<const char*>(&code), sizeof(code));
  std::vector<std::string> texts = gather_texts(group, own);
  for (std::string& text : texts) {
    std::memcpy(&code, text.data() + text.size() - sizeof(code), sizeof(code));
    text.resize(text.size() - sizeof(code));
    if (code != ExitCode::ok) throw Error(code, text);
  }
  return texts;
}

std::string broadcast_text(Communicator& group, std::string text, int root) {
  const HostStream stream;
  auto bytes = static_cast<std::int64_t>(text.size());
  group.broadcast(*stream, {reinterpret_cast<std::byte*>(&bytes), DType::i64, Shape{1}}, root);
  text.resize(static_cast<std::size_t>(bytes));
  group.broadcast(*stream, {reinterpret_cast<std::byte*>(text.data()), DType::u8, Shape{bytes}},
                  root);
  return text;
}

}  // namespace trireme
