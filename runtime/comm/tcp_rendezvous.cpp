// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/tcp_rendezvous.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{60};
constexpr std::uint64_t magic = 0x31'45'4d'45'52'49'52'54;  // "TRIREME1"

struct Hello {
  std::uint64_t sign = magic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint16_t port = 0;  // where the sender listens, network order
  std::uint16_t unused = 0;
};

struct Address {
  std::uint32_t host = 0;  // IPv4, network order
  std::uint16_t port = 0;  // network order
  std::uint16_t unused = 0;
};

int number(const char* name, const char* text, int least) {
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < least)
    fail(ExitCode::config, "{}={}: is no number of at least {}", name, text, least);
  return value;
}

FileDescriptor new_socket() {
  FileDescriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.is_open()) system_failed("socket", "TCP", ExitCode::communication);
  return made;
}

// Small messages at once; a host that is gone is noticed within half a minute.
void tune(const FileDescriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    if (::setsockopt(socket.get(), level, option, &value, sizeof(value)) != 0)
      system_failed("setsockopt", "TCP", ExitCode::communication);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // milliseconds
}

// Both sides block here; the mesh itself never does.
template <typename T>
void write_value(const FileDescriptor& socket, const T& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  for (std::size_t done = 0; done < sizeof(T);) {
    const ssize_t sent = ::send(socket.get(), bytes + done, sizeof(T) - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) system_failed("send", "a rank that joins", ExitCode::communication);
    done += static_cast<std::size_t>(sent);
  }
}

void wait_readable(const FileDescriptor& socket, Clock::time_point limit, const std::string& whom) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
  pollfd waiting{socket.get(), POLLIN, 0};
  const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
  if (ready > 0 || (ready < 0 && errno == EINTR)) return;
  fail(ExitCode::communication, "waited {} s for {} and gave up; start all WORLD_SIZE processes",
       patience.count(), whom);
}

template <typename T>
void read_value(const FileDescriptor& socket, T& value, Clock::time_point limit,
                const std::string& whom) {
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  for (std::size_t done = 0; done < sizeof(T);) {
    wait_readable(socket, limit, whom);
    const ssize_t got = ::recv(socket.get(), bytes + done, sizeof(T) - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      fail(ExitCode::communication, "{} closed its connection before the job began", whom);
    done += static_cast<std::size_t>(got);
  }
}

FileDescriptor listen_at(std::uint16_t port, int backlog, std::uint16_t& chosen) {
  FileDescriptor listener = new_socket();
  const int one = 1;
  static_cast<void>(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = port;
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0)
    system_failed("bind", fmt::format("port {}", ntohs(port)), ExitCode::communication);
  socklen_t length = sizeof(own);
  if (::listen(listener.get(), backlog) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    system_failed("listen", fmt::format("port {}", ntohs(port)), ExitCode::communication);
  }
  chosen = own.sin_port;
  return listener;
}

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

// Until it answers: ranks start in any order.
FileDescriptor connect_to(const sockaddr_in& address, Clock::time_point limit,
                          const std::string& whom) {
  for (;;) {
    FileDescriptor socket = new_socket();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return socket;
    if (Clock::now() > limit) {
      fail(ExitCode::communication, "{} does not answer within {} s: {}", whom, patience.count(),
           std::strerror(errno));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

struct Guest {
  FileDescriptor socket;
  Hello hello;
  Address address;  // where it listens
};

Guest accept_guest(const FileDescriptor& listener, const TcpPlace& place, Clock::time_point limit,
                   const std::string& whom) {
  wait_readable(listener, limit, whom);
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  Guest guest;
  guest.socket = FileDescriptor(
      ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC));
  if (!guest.socket.is_open()) system_failed("accept", "TCP", ExitCode::communication);
  read_value(guest.socket, guest.hello, limit, "a process that connected");
  const Hello& hello = guest.hello;
  if (hello.sign != magic || hello.size != place.size || hello.rank <= 0 ||
      hello.rank >= place.size) {
    fail(ExitCode::communication,
         "a process that connected says to be rank {} of {}; this job has {} ranks: is another job "
         "using MASTER_PORT={}?",
         hello.rank, hello.size, place.size, place.port);
  }
  guest.address = {from.sin_addr.s_addr, hello.port, 0};
  return guest;
}

std::string missing(const std::vector<FileDescriptor>& sockets, int first) {
  std::string names;
  for (std::size_t rank = static_cast<std::size_t>(first); rank < sockets.size(); ++rank) {
    if (!sockets[rank].is_open()) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  return "rank " + names;
}

void take(std::vector<FileDescriptor>& sockets, Guest guest) {
  FileDescriptor& place = sockets[static_cast<std::size_t>(guest.hello.rank)];
  if (place.is_open())
    fail(ExitCode::communication, "two processes say to be rank {}; set RANK for each",
         guest.hello.rank);
  place = std::move(guest.socket);
}

// Rank 0 greets everybody, then sends the table of addresses.
void host_all(const TcpPlace& place, std::vector<FileDescriptor>& sockets,
              Clock::time_point limit) {
  std::uint16_t port = 0;
  const auto listener = listen_at(htons(static_cast<std::uint16_t>(place.port)), place.size, port);
  std::vector<Address> table(sockets.size());
  for (int joined = 1; joined < place.size; ++joined) {
    Guest guest = accept_guest(listener, place, limit, missing(sockets, 1));
    table[static_cast<std::size_t>(guest.hello.rank)] = guest.address;
    take(sockets, std::move(guest));
  }
  for (std::size_t rank = 1; rank < sockets.size(); ++rank) {
    for (const Address& address : table)
      write_value(sockets[rank], address);
  }
}

void join_all(const TcpPlace& place, std::vector<FileDescriptor>& sockets,
              Clock::time_point limit) {
  Hello hello{.rank = place.rank, .size = place.size};
  const auto listener = listen_at(0, place.size, hello.port);
  const std::string master =
      fmt::format("rank 0 at MASTER_ADDR={} MASTER_PORT={}", place.address, place.port);
  sockets[0] = connect_to(resolve(place), limit, master);
  write_value(sockets[0], hello);
  std::vector<Address> table(sockets.size());
  for (Address& address : table)
    read_value(sockets[0], address, limit, master);
  // The lower rank listens.
  for (int rank = 1; rank < place.rank; ++rank) {
    const Address& address = table[static_cast<std::size_t>(rank)];
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = address.host;
    to.sin_port = address.port;
    FileDescriptor& socket = sockets[static_cast<std::size_t>(rank)];
    socket = connect_to(to, limit, fmt::format("rank {}", rank));
    write_value(socket, hello);
  }
  for (int joined = place.rank + 1; joined < place.size; ++joined)
    take(sockets, accept_guest(listener, place, limit, missing(sockets, place.rank + 1)));
}

}  // namespace

std::optional<TcpPlace> tcp_place() {
  const char* const size = std::getenv("WORLD_SIZE");
  if (size == nullptr) return {};
  TcpPlace place;
  place.size = number("WORLD_SIZE", size, 1);
  if (place.size == 1) return {};
  const char* const rank = std::getenv("RANK");
  const char* const address = std::getenv("MASTER_ADDR");
  if (rank == nullptr || address == nullptr) {
    fail(ExitCode::config,
         "WORLD_SIZE={} is set and {} is not; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
         "for each process, or start them with mpirun or srun --mpi=pmix",
         size, rank == nullptr ? "RANK" : "MASTER_ADDR");
  }
  place.rank = number("RANK", rank, 0);
  place.address = address;
  if (const char* const port = std::getenv("MASTER_PORT"))
    place.port = number("MASTER_PORT", port, 1);
  if (place.rank >= place.size || place.port > 65535) {
    fail(ExitCode::config, "RANK={} of WORLD_SIZE={}, MASTER_PORT={}: RANK counts from 0", rank,
         size, place.port);
  }
  return place;
}

std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place) {
  const auto limit = Clock::now() + patience;
  std::vector<FileDescriptor> sockets(static_cast<std::size_t>(place.size));
  if (place.rank == 0) {
    host_all(place, sockets, limit);
  } else {
    join_all(place, sockets, limit);
  }
  for (const FileDescriptor& socket : sockets) {
    if (socket.is_open()) tune(socket);
  }
  return sockets;
}

}  // namespace trireme
