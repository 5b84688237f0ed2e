// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_listener.h"

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
constexpr int max_pending = 128;
constexpr auto pause_between_logs = 1s;

}  // namespace

TcpListener::TcpListener(JobIdentity identity, const sockaddr_in& where)
    : identity_(std::move(identity)), listener_(listen_at(where, identity_.size + max_pending)) {}

std::optional<TcpPeer> TcpListener::serve(std::chrono::milliseconds pause, const Judge& judge) {
  const auto until = TcpClock::now() + pause;
  do {
    auto next = until;
    std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}};
    for (const PendingPeer& pending : pending_) {
      waiting.push_back({pending.socket.get(), POLLIN, 0});
      next = std::min(next, pending.limit);
    }
    if (::poll(waiting.data(), waiting.size(), poll_milliseconds(next)) < 0 && errno != EINTR)
      system_failed("poll", "TCP", ExitCode::communication);
    std::size_t index = 0;
    for (auto at = pending_.begin(); at != pending_.end();) {
      PendingPeer& pending = *at;
      const bool spoke = waiting[++index].revents != 0;
      const Heard heard = spoke ? listen_to(pending) : Heard::part;
      if (heard == Heard::part && TcpClock::now() < pending.limit) {
        ++at;
        continue;
      }
      std::optional<TcpPeer> peer;
      if (heard == Heard::answer) {
        peer = judge_answer(pending, judge);
      } else {
        refuse(pending, heard == Heard::part ? "it did not prove the job's secret in time"
                                             : "it disconnected before it proved the job's secret");
      }
      at = pending_.erase(at);
      if (peer) return peer;
    }
    if ((waiting.front().revents & POLLIN) != 0) accept_all();
  } while (TcpClock::now() < until);
  return {};
}

void TcpListener::accept_all() {
  for (;;) {
    PendingPeer pending;
    socklen_t length = sizeof(pending.address);
    pending.socket =
        FileDescriptor(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&pending.address),
                                 &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!pending.socket.is_open()) {
      // A connection that broke while queued is ignored. Without descriptors the oldest is closed;
      // the others wait.
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && !pending_.empty()) {
        refuse(pending_.front(), "too many connections");
        pending_.pop_front();
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      system_failed("accept", "TCP", ExitCode::communication);
    }
    pending.limit = TcpClock::now() + patience;
    pending.challenge = make_challenge();
    // It fits the empty buffer of a new connection; if not, the peer is no rank.
    if (!send_all(pending.socket, bytes_of(pending.challenge), TcpClock::now())) {
      refuse(pending, "it disconnected before it proved the job's secret");
      continue;
    }
    pending_.push_back(std::move(pending));
    if (pending_.size() > static_cast<std::size_t>(identity_.size + max_pending)) {
      refuse(pending_.front(), "too many connections");
      pending_.pop_front();
    }
  }
}

TcpListener::Heard TcpListener::listen_to(PendingPeer& pending) {
  while (pending.got < pending.answer.size()) {
    const ssize_t got = ::recv(pending.socket.get(), pending.answer.data() + pending.got,
                               pending.answer.size() - pending.got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Heard::part;
    if (got <= 0) return Heard::nothing_more;
    pending.got += static_cast<std::size_t>(got);
  }
  return Heard::answer;
}

std::optional<TcpPeer> TcpListener::judge_answer(PendingPeer& pending, const Judge& judge) {
  const auto answer = check_answer(identity_.secret, pending.challenge, pending.answer);
  if (!answer) {
    refuse(pending, identity_.secret.given() ? "it does not have this job's secret (TRIREME_SECRET)"
                                             : "it is not a rank of a job");
    return {};
  }
  const TcpHello& hello = answer->hello;
  TcpVerdict verdict = TcpVerdict::welcome;
  if (hello.job != identity_.job) {
    verdict = TcpVerdict::other_job;
  } else if (hello.size != identity_.size) {
    verdict = TcpVerdict::other_size;
  } else if (hello.rank < 0 || hello.rank >= identity_.size || hello.rank == identity_.rank) {
    verdict = TcpVerdict::no_such_rank;
  } else {
    verdict = judge(hello.rank);
  }
  const TcpReply reply =
      make_reply(identity_.secret, pending.challenge, *answer, verdict, identity_.rank);
  const bool told = send_all(pending.socket, bytes_of(reply), TcpClock::now());
  if (verdict != TcpVerdict::welcome) {
    refuse(pending, fmt::format("it claims to be rank {} of {}: {}", hello.rank, hello.size,
                                text_of(verdict)));
    return {};
  }
  if (!told) {
    refuse(pending, "it disconnected before it was accepted");
    return {};
  }
  return TcpPeer{std::move(pending.socket), hello, pending.address};
}

void TcpListener::refuse(const PendingPeer& pending, std::string_view why) {
  ++refused_;
  if (TcpClock::now() - last_log_ < pause_between_logs) {
    ++unlogged_;
    return;
  }
  last_log_ = TcpClock::now();
  const int unlogged = std::exchange(unlogged_, 0);
  log::get("comm").warn("refused a connection from {} to {}: {}{}", text_of(pending.address),
                        text_of(address()), why,
                        unlogged == 0 ? "" : fmt::format("; and {} others since", unlogged));
}

}  // namespace trireme
