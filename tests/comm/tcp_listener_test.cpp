// SPDX-License-Identifier: Apache-2.0
// Unknown peers at a job's port: ranks connect whatever else connects, and no process joins without
// the secret. All in one process, over the loopback network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>

#include "runtime/comm/host/tcp/tcp_listener.h"
#include "runtime/comm/host/tcp/tcp_place.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using testing::HasSubstr;

const std::string our_secret = "the secret of this very job";

sockaddr_in loopback(int port, std::uint32_t host = INADDR_LOOPBACK) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// An unused port.
int free_port() {
  return ntohs(own_address(listen_at(loopback(0), 1)).sin_port);
}

class TcpListenerTest : public testing::Test {
 protected:
  [[nodiscard]] TcpPlace place_of(int rank, int size = 2) const {
    TcpPlace place;
    place.rank = rank;
    place.size = size;
    place.address = "127.0.0.1";
    place.port = port_;
    place.secret = TcpSecret(our_secret);
    place.job = 7;
    place.patience_seconds = 60;
    return place;
  }
  [[nodiscard]] static std::future<std::vector<FileDescriptor>> start(const TcpPlace& place) {
    return std::async(std::launch::async, [place] { return tcp_connect_all(place); });
  }
  // Connects as soon as rank 0 listens.
  [[nodiscard]] FileDescriptor knock(std::uint32_t host = INADDR_LOOPBACK) const {
    const auto limit = tcp_limit(30);
    for (;;) {
      FileDescriptor socket = connect_until(loopback(port_, host), limit);
      if (socket.is_open() || TcpClock::now() > limit) return socket;
    }
  }
  // Rank 0's answer to a process with this secret and these claims; empty: none.
  [[nodiscard]] std::optional<TcpVerdict> introduce(const std::string& secret,
                                                    const TcpHello& hello) {
    peers_.push_back(knock());
    TcpChallenge challenge;
    EXPECT_TRUE(receive_all(peers_.back(), writable_bytes_of(challenge), tcp_limit(30)));
    const TcpAnswer answer = make_answer(TcpSecret(secret), challenge, hello);
    EXPECT_TRUE(send_all(peers_.back(), bytes_of(answer), tcp_limit(30)));
    TcpReply reply;
    if (!receive_all(peers_.back(), writable_bytes_of(reply), tcp_limit(30))) return {};
    EXPECT_TRUE(check_reply(TcpSecret(our_secret), challenge, answer, reply));
    return reply.verdict;
  }
  // Rank 1 arrives after that, and both are connected.
  void expect_job_begins(std::future<std::vector<FileDescriptor>>& rank_0) const {
    auto rank_1 = start(place_of(1));
    const auto first = rank_0.get(), second = rank_1.get();
    ASSERT_TRUE(first[1].is_open() && second[0].is_open());
    const std::string word = "hello";
    std::string heard(word.size(), ' ');
    EXPECT_TRUE(send_all(first[1], std::as_bytes(std::span(word)), tcp_limit(30)));
    EXPECT_TRUE(receive_all(second[0], std::as_writable_bytes(std::span(heard)), tcp_limit(30)));
    EXPECT_EQ(heard, word);
  }

  int port_ = free_port();
  std::vector<FileDescriptor> peers_;  // still connected at the end
};

TEST_F(TcpListenerTest, ProbesSilenceAndGarbageDoNotPreventJoining) {
  auto rank_0 = start(place_of(0));
  static_cast<void>(knock());  // nc -z
  for (int silent = 0; silent < 20; ++silent)
    peers_.push_back(knock());
  peers_.push_back(knock());
  const std::string garbage(1 << 20, 'x');
  static_cast<void>(send_all(peers_.back(), std::as_bytes(std::span(garbage)), tcp_limit(0.2)));
  peers_.push_back(knock());
  const std::string half = "GET / HTTP/1.1\r\n";
  EXPECT_TRUE(send_all(peers_.back(), std::as_bytes(std::span(half)), tcp_limit(30)));

  expect_job_begins(rank_0);
}

TEST_F(TcpListenerTest, NoProcessJoinsWithoutTheSecretOrAsAnotherRank) {
  auto rank_0 = start(place_of(0));
  const TcpHello rank_1{.job = 7, .rank = 1, .size = 2};
  EXPECT_EQ(introduce("", rank_1), std::nullopt);
  EXPECT_EQ(introduce("the secret of some other job", rank_1), std::nullopt);
  EXPECT_EQ(introduce(our_secret, {.job = 8, .rank = 1, .size = 2}), TcpVerdict::other_job);
  EXPECT_EQ(introduce(our_secret, {.job = 7, .rank = 1, .size = 3}), TcpVerdict::other_size);
  EXPECT_EQ(introduce(our_secret, {.job = 7, .rank = 0, .size = 2}), TcpVerdict::no_such_rank);
  EXPECT_EQ(introduce(our_secret, {.job = 7, .rank = 2, .size = 2}), TcpVerdict::no_such_rank);
  EXPECT_EQ(introduce(our_secret, {.job = 7, .rank = -1, .size = 2}), TcpVerdict::no_such_rank);

  expect_job_begins(rank_0);
}

TEST_F(TcpListenerTest, ARankThatLeavesBeforeTheJobBeginsMayComeAgain) {
  auto rank_0 = start(place_of(0, 3));
  const TcpHello rank_1{.job = 7, .rank = 1, .size = 3};
  EXPECT_EQ(introduce(our_secret, rank_1), TcpVerdict::welcome);
  EXPECT_EQ(introduce(our_secret, rank_1), TcpVerdict::rank_taken);
  peers_.clear();

  auto rank_1_again = start(place_of(1, 3)), rank_2 = start(place_of(2, 3));
  for (auto* const rank : {&rank_0, &rank_1_again, &rank_2}) {
    const auto sockets = rank->get();
    EXPECT_EQ(std::ranges::count_if(sockets, [](const auto& socket) { return socket.is_open(); }),
              2);
  }
}

TEST_F(TcpListenerTest, AProofIsInvalidOnAnotherConnection) {
  const TcpSecret secret(our_secret);
  const TcpChallenge one = make_challenge(), other = make_challenge();
  const TcpAnswer answer = make_answer(secret, one, {.job = 7, .rank = 1, .size = 2});

  EXPECT_TRUE(check_answer(secret, one, bytes_of(answer)));
  EXPECT_FALSE(check_answer(secret, other, bytes_of(answer)));
  EXPECT_FALSE(check_answer(TcpSecret(), one, bytes_of(answer)));
  EXPECT_FALSE(check_answer(secret, one, bytes_of(answer).first(sizeof(answer) - 1)));
  TcpAnswer changed = answer;
  changed.hello.rank = 0;
  EXPECT_FALSE(check_answer(secret, one, bytes_of(changed)));
  // The peer's proof must not serve as the host's.
  TcpReply reply{.verdict = TcpVerdict::welcome, .rank = 0, .proof = answer.proof};
  EXPECT_FALSE(check_reply(secret, one, answer, reply));
  reply = make_reply(secret, one, answer, TcpVerdict::welcome, 0);
  EXPECT_TRUE(check_reply(secret, one, answer, reply));
  reply.verdict = TcpVerdict::rank_taken;
  EXPECT_FALSE(check_reply(secret, one, answer, reply));
}

// A process at rank 0's port that sends rank 0's messages without its secret.
TEST_F(TcpListenerTest, AnImpostorOfRank0IsNotBelieved) {
  TcpPlace impostor = place_of(0), rank_1 = place_of(1);
  impostor.secret = TcpSecret("a guess at the secret");
  impostor.patience_seconds = rank_1.patience_seconds = 1;
  auto served = start(impostor);

  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(tcp_connect_all(rank_1)); },
      "closed the connection");
  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(served.get()); }, "waited 1 s");
}

TEST_F(TcpListenerTest, OnlyTheMastersAddressAnswers) {
  TcpPlace place = place_of(0);
  place.address = "127.0.0.2";
  auto rank_0 = start(place);
  peers_.push_back(knock(INADDR_LOOPBACK + 1));
  ASSERT_TRUE(peers_.back().is_open());

  EXPECT_FALSE(connect_until(loopback(port_), tcp_limit(1)).is_open());

  TcpPlace second = place_of(1);
  second.address = "127.0.0.2";
  EXPECT_EQ(tcp_connect_all(second).size(), 2U);
  EXPECT_EQ(rank_0.get().size(), 2U);
}

TEST_F(TcpListenerTest, WithoutASecretOtherHostsAreRefused) {
  TcpPlace place = place_of(0);
  place.secret = TcpSecret();
  place.address = "0.0.0.0";
  test::expect_error(
      ExitCode::config, [&] { static_cast<void>(tcp_connect_all(place)); },
      "TRIREME_SECRET_FILE=FILE");
}

TEST_F(TcpListenerTest, MissingRanksAreNamed) {
  TcpPlace place = place_of(0, 3);
  place.patience_seconds = 0.3;
  test::expect_error(
      ExitCode::communication, [&] { static_cast<void>(tcp_connect_all(place)); },
      "waited 0.3 s (TRIREME_START_SECONDS) for rank 1, 2 at 127.0.0.1");
}

class TcpSecretTest : public testing::Test {
 protected:
  ~TcpSecretTest() override {
    ::unsetenv("TRIREME_SECRET");
    ::unsetenv("TRIREME_SECRET_FILE");
  }
  test::TemporaryDirectory directory_;
};

TEST_F(TcpSecretTest, ComesFromTheEnvironmentOrAPrivateFile) {
  EXPECT_FALSE(TcpSecret::of_environment().given());
  const TcpProof proof = TcpSecret(our_secret).prove("x");
  ::setenv("TRIREME_SECRET", our_secret.c_str(), 1);
  EXPECT_EQ(TcpSecret::of_environment().prove("x"), proof);
  const std::string path = directory_.file("secret");
  test::write_text(path, our_secret + "\n");
  ::setenv("TRIREME_SECRET_FILE", path.c_str(), 1);
  test::expect_error(
      ExitCode::config, [&] { static_cast<void>(TcpSecret::of_environment()); }, "unset one");
  ::unsetenv("TRIREME_SECRET");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  test::expect_error(
      ExitCode::config, [&] { static_cast<void>(TcpSecret::of_environment()); }, "chmod 600");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(TcpSecret::of_environment().prove("x"), proof);
}

TEST_F(TcpSecretTest, AWeakSecretIsRefusedAndNotPrinted) {
  ::setenv("TRIREME_SECRET", "hunter2", 1);
  try {
    static_cast<void>(TcpSecret::of_environment());
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("7 bytes"), Not(HasSubstr("hunter2"))));
  }
}

}  // namespace
}  // namespace trireme
