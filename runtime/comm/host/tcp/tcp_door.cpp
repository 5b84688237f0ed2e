// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_door.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/base/log.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

// Time for a connection to prove the secret.
constexpr auto patience = 5s;
// Limit of open connections beside the job's ranks; the oldest is closed.
constexpr int max_strangers = 128;
constexpr auto pause_between_logs = 1s;

}  // namespace

TcpDoor::TcpDoor(House house, const sockaddr_in& where)
    : house_(std::move(house)), listener_(listen_at(where, house_.size + max_strangers)) {}

std::optional<TcpGuest> TcpDoor::serve(std::chrono::milliseconds pause, const Judge& judge) {
  const auto until = TcpClock::now() + pause;
  do {
    auto next = until;
    std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) {
      waiting.push_back({stranger.socket.get(), POLLIN, 0});
      next = std::min(next, stranger.limit);
    }
    if (::poll(waiting.data(), waiting.size(), poll_milliseconds(next)) < 0 && errno != EINTR)
      system_failed("poll", "TCP", ExitCode::communication);
    std::size_t index = 0;
    for (auto at = strangers_.begin(); at != strangers_.end();) {
      Stranger& stranger = *at;
      const bool spoke = waiting[++index].revents != 0;
      const Heard heard = spoke ? listen_to(stranger) : Heard::part;
      if (heard == Heard::part && TcpClock::now() < stranger.limit) {
        ++at;
        continue;
      }
      std::optional<TcpGuest> guest;
      if (heard == Heard::answer) {
        guest = judge_answer(stranger, judge);
      } else {
        refuse(stranger, heard == Heard::part
                             ? "it did not prove the job's secret in time"
                             : "it disconnected before it proved the job's secret");
      }
      at = strangers_.erase(at);
      if (guest) return guest;
    }
    if ((waiting.front().revents & POLLIN) != 0) accept_all();
  } while (TcpClock::now() < until);
  return {};
}

void TcpDoor::accept_all() {
  for (;;) {
    Stranger stranger;
    socklen_t length = sizeof(stranger.address);
    stranger.socket =
        FileDescriptor(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&stranger.address),
                                 &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!stranger.socket.is_open()) {
      // A connection that broke while queued is ignored. Without descriptors the oldest is closed;
      // the others wait.
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
        refuse(strangers_.front(), "too many connections");
        strangers_.pop_front();
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      system_failed("accept", "TCP", ExitCode::communication);
    }
    stranger.limit = TcpClock::now() + patience;
    stranger.challenge = make_challenge();
    // It fits the empty buffer of a new connection; if not, the peer is no rank.
    if (!send_all(stranger.socket, bytes_of(stranger.challenge), TcpClock::now())) {
      refuse(stranger, "it disconnected before it proved the job's secret");
      continue;
    }
    strangers_.push_back(std::move(stranger));
    if (strangers_.size() > static_cast<std::size_t>(house_.size + max_strangers)) {
      refuse(strangers_.front(), "too many connections");
      strangers_.pop_front();
    }
  }
}

TcpDoor::Heard TcpDoor::listen_to(Stranger& stranger) {
  while (stranger.got < stranger.answer.size()) {
    const ssize_t got = ::recv(stranger.socket.get(), stranger.answer.data() + stranger.got,
                               stranger.answer.size() - stranger.got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Heard::part;
    if (got <= 0) return Heard::nothing_more;
    stranger.got += static_cast<std::size_t>(got);
  }
  return Heard::answer;
}

std::optional<TcpGuest> TcpDoor::judge_answer(Stranger& stranger, const Judge& judge) {
  const auto answer = check_answer(house_.secret, stranger.challenge, stranger.answer);
  if (!answer) {
    refuse(stranger, house_.secret.given() ? "it does not have this job's secret (TRIREME_SECRET)"
                                           : "it is not a rank of a job");
    return {};
  }
  const TcpHello& hello = answer->hello;
  TcpVerdict verdict = TcpVerdict::welcome;
  if (hello.job != house_.job) {
    verdict = TcpVerdict::other_job;
  } else if (hello.size != house_.size) {
    verdict = TcpVerdict::other_size;
  } else if (hello.rank < 0 || hello.rank >= house_.size || hello.rank == house_.rank) {
    verdict = TcpVerdict::no_such_rank;
  } else {
    verdict = judge(hello.rank);
  }
  const TcpReply reply =
      make_reply(house_.secret, stranger.challenge, *answer, verdict, house_.rank);
  const bool told = send_all(stranger.socket, bytes_of(reply), TcpClock::now());
  if (verdict != TcpVerdict::welcome) {
    refuse(stranger, fmt::format("it claims to be rank {} of {}: {}", hello.rank, hello.size,
                                 text_of(verdict)));
    return {};
  }
  if (!told) {
    refuse(stranger, "it disconnected before it was accepted");
    return {};
  }
  return TcpGuest{std::move(stranger.socket), hello, stranger.address};
}

void TcpDoor::refuse(const Stranger& stranger, std::string_view why) {
  ++refused_;
  if (TcpClock::now() - last_log_ < pause_between_logs) {
    ++unlogged_;
    return;
  }
  last_log_ = TcpClock::now();
  const int unlogged = std::exchange(unlogged_, 0);
  log::get("comm").warn("refused a connection from {} to {}: {}{}", text_of(stranger.address),
                        text_of(address()), why,
                        unlogged == 0 ? "" : fmt::format("; and {} others since", unlogged));
}

}  // namespace trireme
