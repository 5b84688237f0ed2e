// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_place.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/comm/host/tcp/tcp_listener.h"
#include "runtime/comm/watchdog/start_watch.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

// Time for one connection attempt; a busy rank answers later.
constexpr auto patience_of_attempt = 10s;
// Rank 0 knows who is missing, so it should be the first to give up.
constexpr auto longer_than_rank_0 = 5s;
constexpr auto look_at_others = 200ms;

struct TableEntry {
  std::uint32_t host = 0;  // IPv4, network order
  std::uint16_t port = 0;  // network order
  std::uint16_t unused = 0;
};

using Sockets = std::vector<FileDescriptor>;

sockaddr_in resolve(const TcpPlace& place) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(place.address.c_str(), nullptr, &hints, &list); error != 0) {
    fail(ExitCode::communication, "MASTER_ADDR={}: {}", place.address, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  sockaddr_in address{};
  std::memcpy(&address, list->ai_addr, sizeof(address));
  address.sin_port = htons(static_cast<std::uint16_t>(place.port));
  return address;
}

// Where a process listens whom others reach at `address`. A host's own name often means loopback on
// that host alone (Debian: 127.0.1.1 in /etc/hosts), and other hosts know another address of it.
sockaddr_in place_to_listen(const TcpPlace& place, sockaddr_in address) {
  if (!is_loopback(address) || place.address == "localhost" || place.address.starts_with("127."))
    return address;
  if (place.secret.given()) {
    address.sin_addr.s_addr = htonl(INADDR_ANY);
  } else if (place.rank == 0) {
    log::get("comm").warn(
        "MASTER_ADDR={} is {} on this host (/etc/hosts), and without TRIREME_SECRET only its own "
        "ranks may join",
        place.address, text_of(address));
  }
  return address;
}

std::string seconds_text(const TcpPlace& place) {
  return fmt::format("{:g} s ({})", place.patience_seconds, start_seconds_variable);
}

TcpListener::JobIdentity identity_of(const TcpPlace& place) {
  return {.secret = place.secret, .job = place.job, .rank = place.rank, .size = place.size};
}

std::string missing(const Sockets& sockets, int first) {
  std::string names;
  for (std::size_t rank = static_cast<std::size_t>(first); rank < sockets.size(); ++rank) {
    if (!sockets[rank].is_open()) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  return "rank " + names;
}

bool all_here(const Sockets& sockets, int first) {
  return std::all_of(sockets.begin() + first, sockets.end(),
                     [](const FileDescriptor& socket) { return socket.is_open(); });
}

[[noreturn]] void give_up(const TcpPlace& place, const Sockets& sockets, int first,
                          const TcpListener& listener) {
  const sockaddr_in own = listener.address();
  fail(ExitCode::communication,
       "waited {} for {} at {}{} and gave up; start all WORLD_SIZE processes{}",
       seconds_text(place), missing(sockets, first), text_of(own),
       is_loopback(own) ? ", which only this host reaches," : "",
       listener.refused() == 0
           ? ""
           : fmt::format(" with the same TRIREME_SECRET ({} connections were refused)",
                         listener.refused()));
}

// Somebody to connect to.
struct Host {
  int rank = 0;
  sockaddr_in address{};
  std::string name;
};
using MakeHello = std::function<TcpHello(const FileDescriptor&)>;

// Both sides prove the secret. Returns "" if this process is accepted, else the problem, which may
// be temporary. A verdict from a rank of the job is final.
std::string introduce(const FileDescriptor& socket, const Host& host, const TcpPlace& place,
                      const TcpHello& hello, TcpClock::time_point limit) {
  TcpChallenge challenge;
  if (!receive_all(socket, writable_bytes_of(challenge), limit))
    return fmt::format("it sent no greeting ({})", std::strerror(errno));
  if (!is_challenge(challenge)) return "another program listens at this address";
  const TcpAnswer answer = make_answer(place.secret, challenge, hello);
  TcpReply reply;
  if (!send_all(socket, bytes_of(answer), limit) ||
      !receive_all(socket, writable_bytes_of(reply), limit)) {
    return fmt::format("it closed the connection ({}); do both have the same TRIREME_SECRET?",
                       std::strerror(errno));
  }
  if (!check_reply(place.secret, challenge, answer, reply))
    return "it does not have this job's secret";
  if (reply.verdict != TcpVerdict::welcome) {
    fail(ExitCode::communication, "{} refused this process, rank {} of {}: {}", host.name,
         place.rank, place.size, text_of(reply.verdict));
  }
  if (reply.rank != host.rank) return fmt::format("it is rank {}", reply.rank);
  return "";
}

// Retries until accepted, because ranks start in any order.
FileDescriptor knock(const Host& host, const TcpPlace& place, const Sockets& sockets,
                     const MakeHello& make_hello, TcpClock::time_point limit) {
  std::string turned_away;  // more informative than a later timeout
  for (auto pause = 20ms;; pause = std::min<std::chrono::milliseconds>(pause * 2, 500ms)) {
    const auto attempt =
        std::min<TcpClock::time_point>(limit, TcpClock::now() + patience_of_attempt);
    std::string problem;
    if (FileDescriptor socket = connect_until(host.address, attempt); socket.is_open()) {
      problem = introduce(socket, host, place, make_hello(socket), attempt);
      if (problem.empty()) return socket;
      if (turned_away.empty() || TcpClock::now() < limit) turned_away = problem;
    } else {
      problem = std::strerror(errno);
    }
    if (sockets[0].is_open() && has_left(sockets[0]))
      fail(ExitCode::communication, "rank 0 disconnected before the job began");
    if (TcpClock::now() >= limit)
      fail(ExitCode::communication, "{} did not accept this process within {}: {}", host.name,
           seconds_text(place), turned_away.empty() ? problem : turned_away);
    std::this_thread::sleep_for(pause);
  }
}

// Rank 0 accepts all ranks, then sends the address table.
void host_all(const TcpPlace& place, const sockaddr_in& address, Sockets& sockets,
              TcpClock::time_point limit) {
  TcpListener listener = with_context(
      fmt::format("MASTER_ADDR={} MASTER_PORT={}, where rank 0 listens, "
                  "must be an address of its host and a free port",
                  place.address, place.port),
      [&] { return TcpListener(identity_of(place), place_to_listen(place, address)); });
  std::vector<TableEntry> table(sockets.size());
  const auto judge = [&](int rank) {
    FileDescriptor& socket = sockets[static_cast<std::size_t>(rank)];
    if (socket.is_open() && has_left(socket)) socket = FileDescriptor();
    return socket.is_open() ? TcpVerdict::rank_taken : TcpVerdict::welcome;
  };
  const auto drop_disconnected = [&] {
    for (std::size_t rank = 1; rank < sockets.size(); ++rank) {
      if (!sockets[rank].is_open() || !has_left(sockets[rank])) continue;
      log::get("comm").warn("rank {} disconnected before the job began", rank);
      sockets[rank] = FileDescriptor();
    }
  };
  while (!all_here(sockets, 1)) {
    if (auto peer = listener.serve(look_at_others, judge)) {
      const auto rank = static_cast<std::size_t>(peer->hello.rank);
      table[rank] = {peer->address.sin_addr.s_addr, peer->hello.port, 0};
      sockets[rank] = std::move(peer->socket);
      if (!all_here(sockets, 1)) continue;
    }
    drop_disconnected();
    if (TcpClock::now() >= limit) give_up(place, sockets, 1, listener);
  }
  for (std::size_t rank = 1; rank < sockets.size(); ++rank) {
    if (!send_all(sockets[rank], std::as_bytes(std::span(table)), limit + longer_than_rank_0))
      fail(ExitCode::communication, "rank {} disconnected before the job began", rank);
  }
}

std::vector<TableEntry> receive_table(const FileDescriptor& from, const Host& master,
                                      const TcpPlace& place, TcpClock::time_point limit) {
  std::vector<TableEntry> table(static_cast<std::size_t>(place.size));
  if (receive_all(from, std::as_writable_bytes(std::span(table)), limit)) return table;
  if (errno != ETIMEDOUT)
    fail(ExitCode::communication, "{} disconnected before the job began", master.name);
  fail(ExitCode::communication, "{} did not send the addresses of the other ranks within {}",
       master.name, seconds_text(place));
}

void join_all(const TcpPlace& place, const sockaddr_in& address, Sockets& sockets,
              TcpClock::time_point limit) {
  TcpHello hello{.job = place.job, .rank = place.rank, .size = place.size};
  std::optional<TcpListener> listener;
  // Other ranks reach this rank at the address that rank 0 sees.
  const auto with_door = [&](const FileDescriptor& socket) {
    if (!listener) {
      sockaddr_in where = place_to_listen(place, own_address(socket));
      where.sin_port = 0;
      listener.emplace(identity_of(place), where);
      hello.port = listener->address().sin_port;
    }
    return hello;
  };
  const Host master{
      0, address,
      fmt::format("rank 0 at MASTER_ADDR={} MASTER_PORT={}", place.address, place.port)};
  sockets[0] = knock(master, place, sockets, with_door, limit);
  const auto table = receive_table(sockets[0], master, place, limit + longer_than_rank_0);
  // The lower rank listens.
  for (int rank = 1; rank < place.rank; ++rank) {
    const TableEntry& entry = table[static_cast<std::size_t>(rank)];
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = entry.host;
    to.sin_port = entry.port;
    // Rank 0 saw it at the loopback of their host.
    if (is_loopback(to) && !is_loopback(address)) to.sin_addr = address.sin_addr;
    sockets[static_cast<std::size_t>(rank)] =
        knock({rank, to, fmt::format("rank {} at {}", rank, text_of(to))}, place, sockets,
              with_door, limit);
  }
  const auto judge = [&](int rank) {
    if (rank < place.rank) return TcpVerdict::no_such_rank;
    return sockets[static_cast<std::size_t>(rank)].is_open() ? TcpVerdict::rank_taken
                                                             : TcpVerdict::welcome;
  };
  while (!all_here(sockets, place.rank + 1)) {
    if (auto peer = listener->serve(look_at_others, judge)) {
      sockets[static_cast<std::size_t>(peer->hello.rank)] = std::move(peer->socket);
      continue;
    }
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      if (sockets[rank].is_open() && has_left(sockets[rank]))
        fail(ExitCode::communication, "rank {} disconnected before the job began", rank);
    }
    if (TcpClock::now() >= limit) give_up(place, sockets, place.rank + 1, *listener);
  }
}

}  // namespace

std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place) {
  const auto limit = tcp_limit(place.patience_seconds);
  const sockaddr_in address = resolve(place);
  if (!place.secret.given() && !is_loopback(address)) {
    fail(ExitCode::config,
         "MASTER_ADDR={}: other hosts can reach ranks on {}, and without a secret anybody there "
         "could join the job; set TRIREME_SECRET, or TRIREME_SECRET_FILE=FILE, to the same random "
         "text for all ranks (for example: openssl rand -hex 32), or set MASTER_ADDR=127.0.0.1 if "
         "all ranks are on this host",
         place.address, text_of(address));
  }
  Sockets sockets(static_cast<std::size_t>(place.size));
  if (place.rank == 0) {
    host_all(place, address, sockets, limit);
  } else {
    join_all(place, address, sockets, limit);
  }
  for (const FileDescriptor& socket : sockets) {
    if (socket.is_open()) tune(socket);
  }
  return sockets;
}

}  // namespace trireme
