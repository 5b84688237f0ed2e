// SPDX-License-Identifier: Apache-2.0
// Messages from another rank, of which only valid ones are accepted.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "runtime/comm/host/tcp/tcp_inbox.h"
#include "runtime/comm/host/tcp/tcp_mesh.h"
#include "runtime/comm/host/transfers.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr int peer = 1;
constexpr TcpChannel channel = 5;
constexpr int user = static_cast<int>(MessageTag::user);
constexpr int note = static_cast<int>(MessageTag::note);
constexpr TcpInboxLimits small{.early_bytes = 1000, .early_messages = 4};

// A receive of a string.
struct Wanted {
  explicit Wanted(std::size_t bytes) : text(bytes, '?'), request(std::make_shared<TcpRequest>()) {
    request->into = reinterpret_cast<std::byte*>(text.data());
    request->bytes = bytes;
  }
  std::string text;
  std::shared_ptr<TcpRequest> request;
};

class TcpInboxTest : public testing::Test {
 protected:
  static std::string header(int tag, std::uint64_t bytes, int code = 0) {
    const TcpHeader header{.channel = channel, .tag = tag, .code = code, .bytes = bytes};
    return {reinterpret_cast<const char*>(&header), sizeof(header)};
  }
  static std::string message(const std::string& text, int tag = user) {
    return header(tag, text.size()) + text;
  }
  // Like a socket; bytes not taken stay in `queue_`.
  TcpInbox::Event come(const std::string& bytes, std::size_t at_once = 1U << 30U) {
    queue_ += bytes;
    auto event = TcpInbox::Event::none;
    while (!queue_.empty() && event == TcpInbox::Event::none) {
      const auto space = inbox_.space(peer);
      if (space.empty()) break;
      const std::size_t some = std::min({space.size(), queue_.size(), at_once});
      std::memcpy(space.data(), queue_.data(), some);
      queue_.erase(0, some);
      event = inbox_.arrived(peer, some);
    }
    return event;
  }

  TcpInbox inbox_{2, small};
  std::string queue_;
};

TEST_F(TcpInboxTest, MessagesMeetReceivesInOrderHoweverTheBytesAreCut) {
  for (const std::size_t at_once : {1, 7, 1000}) {
    Wanted first(5), second(0), third(3);
    EXPECT_FALSE(inbox_.receive(peer, channel, user, first.request));
    come(message("hello") + message("") + message("you"), at_once);
    EXPECT_FALSE(inbox_.receive(peer, channel, user, second.request));
    EXPECT_FALSE(inbox_.receive(peer, channel, user, third.request));

    EXPECT_TRUE(first.request->done && second.request->done && third.request->done);
    EXPECT_EQ(first.text, "hello");
    EXPECT_EQ(third.text, "you");
    EXPECT_EQ(inbox_.early_bytes(peer), 0U);
  }
}

TEST_F(TcpInboxTest, AnAnnouncedLengthTakesNoMemory) {
  come(header(user, std::uint64_t{1} << 40U) + "x");
  EXPECT_TRUE(inbox_.waits(peer));
  EXPECT_EQ(inbox_.early_bytes(peer), 0U);
  // The posted receive has another size, so it fails.
  Wanted wanted(5);
  EXPECT_TRUE(inbox_.receive(peer, channel, user, wanted.request));
  come("y");
  EXPECT_TRUE(wanted.request->done);
  EXPECT_NE(wanted.request->problem.find("1099511627776 bytes does not fit a receive of 5"),
            std::string::npos);
}

TEST_F(TcpInboxTest, UnexpectedMessagesAreBoundedAndNotLost) {
  std::string sent;
  for (char letter = 'a'; letter < 'k'; ++letter)
    sent += message(std::string(300, letter));
  come(sent);
  EXPECT_TRUE(inbox_.waits(peer));
  EXPECT_EQ(inbox_.early_bytes(peer), 900U);

  for (char letter = 'a'; letter < 'k'; ++letter) {
    Wanted wanted(300);
    static_cast<void>(inbox_.receive(peer, channel, user, wanted.request));
    come("");
    EXPECT_TRUE(wanted.request->done);
    EXPECT_EQ(wanted.text, std::string(300, letter));
  }
  EXPECT_FALSE(inbox_.waits(peer));
  EXPECT_EQ(inbox_.early_bytes(peer), 0U);
}

TEST_F(TcpInboxTest, EmptyMessagesAreBoundedToo) {
  std::string sent;
  for (int i = 0; i < 10; ++i)
    sent += message("");
  come(sent);
  EXPECT_TRUE(inbox_.waits(peer));
  EXPECT_EQ(queue_.size(), 5 * sizeof(TcpHeader));
  for (int i = 0; i < 10; ++i) {
    Wanted wanted(0);
    static_cast<void>(inbox_.receive(peer, channel, user, wanted.request));
    come("");
    EXPECT_TRUE(wanted.request->done) << i;
  }
}

TEST_F(TcpInboxTest, AReceiveThatComesWhileItsMessageDoesGetsIt) {
  come(message("hello").substr(0, sizeof(TcpHeader) + 2));
  Wanted wanted(5);
  EXPECT_FALSE(inbox_.receive(peer, channel, user, wanted.request));
  EXPECT_FALSE(wanted.request->done);
  come("llo");
  EXPECT_TRUE(wanted.request->done);
  EXPECT_EQ(wanted.text, "hello");
}

TEST_F(TcpInboxTest, NotesArriveFromAnyRankComplete) {
  Wanted wanted(3);
  const auto take = [&] {
    return inbox_.receive_arrived(channel, note, wanted.request->into, wanted.request->bytes);
  };
  come(message("one", note).substr(0, sizeof(TcpHeader) + 1));
  EXPECT_EQ(take(), TcpInbox::Found::nothing);
  come("ne");
  EXPECT_EQ(take(), TcpInbox::Found::message);
  EXPECT_EQ(wanted.text, "one");
}

TEST_F(TcpInboxTest, NoAbortOfAPeerIsASuccess) {
  EXPECT_EQ(come(header(tcp_abort_tag, 0, 3)), TcpInbox::Event::abort);
  EXPECT_EQ(inbox_.abort_code(peer), 3);
  for (const int code : {0, 256, 512, -1, 1 << 30}) {
    TcpInbox inbox(2);
    const std::string bytes = header(tcp_abort_tag, 0, code);
    std::memcpy(inbox.space(peer).data(), bytes.data(), bytes.size());
    EXPECT_EQ(inbox.arrived(peer, bytes.size()), TcpInbox::Event::abort);
    EXPECT_EQ(inbox.abort_code(peer), 5) << code;
  }
}

TEST_F(TcpInboxTest, InvalidMessagesAreRefused) {
  for (const auto& bytes :
       {header(user, ~std::uint64_t{0}), header(user, std::uint64_t{1} << 62U), header(0, 1),
        header(-3, 0), header(4, 8), header(tcp_farewell_tag, 1), header(tcp_abort_tag, 8)}) {
    TcpInbox inbox(2);
    test::expect_error(ExitCode::communication, [&] {
      std::memcpy(inbox.space(peer).data(), bytes.data(), bytes.size());
      static_cast<void>(inbox.arrived(peer, bytes.size()));
    });
  }
}

TEST_F(TcpInboxTest, BytesAfterAFarewellAreRefused) {
  EXPECT_EQ(come(header(tcp_farewell_tag, 0) + message("hello")), TcpInbox::Event::farewell);
  EXPECT_TRUE(inbox_.has_left(peer));
  EXPECT_TRUE(inbox_.space(peer).empty());
}

// A peer that sends this, to a process that listens.
void outlive(const std::string& bytes) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::vector<FileDescriptor> sockets(2);
  sockets[1] = FileDescriptor(ends[0]);
  const TcpMesh mesh(0, std::move(sockets));
  ASSERT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  for (;;)
    ::pause();
}

using TcpMeshDeathTest = TcpInboxTest;

TEST_F(TcpMeshDeathTest, ABadPeerEndsTheJobAsAFailure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto failed = testing::ExitedWithCode(5);
  EXPECT_EXIT(outlive(header(tcp_abort_tag, 0, 0)), failed, "");
  EXPECT_EXIT(outlive(header(user, ~std::uint64_t{0})), failed, "rank 1 sent an invalid message");
}

}  // namespace
}  // namespace trireme
