// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <string_view>
#include <vector>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int backlog = 64;
constexpr auto patience = std::chrono::seconds(10);  // per reader
constexpr std::size_t most_readers = 64;             // at a time; the oldest has to go
constexpr std::size_t longest_request = 8192;

FileDescriptor listen_on(const std::string& host, int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  TRIREME_EXPECTS(::inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1,
                  "{} is not an IPv4 address", host);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket.get(), backlog) == 0)
    return socket;
  fail(ExitCode::config,
       "telemetry.prometheus_port: {}: cannot listen on this port of {}: {}; choose another port, "
       "or 0 for none",
       port, host, std::strerror(errno));
}

std::string response(std::string_view status, std::string_view body, bool head_only) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), head_only ? std::string_view() : body);
}

}  // namespace

struct MetricsServer::Reader {
  FileDescriptor socket;
  Clock::time_point limit;
  std::string request{}, answer{};  // what was read, and what remains to be sent
};

MetricsServer::MetricsServer(const std::string& address, int port,
                             std::function<std::string()> text)
    : text_(std::move(text)), listener_(listen_on(address, port)), end_(::eventfd(0, EFD_CLOEXEC)) {
  if (!end_.is_open()) system_failed("eventfd", "", ExitCode::internal);
  // Signals are handled by the main thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "trireme-metrics");
}

MetricsServer::~MetricsServer() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(end_.get(), &one, sizeof one));
  thread_.join();
}

void MetricsServer::serve() const {
  constexpr auto forever = std::chrono::hours(1);
  constexpr int moment_ms = 100;
  std::list<Reader> readers;
  for (;;) {
    std::vector<pollfd> waits{{end_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    auto limit = Clock::now() + forever;
    for (const Reader& reader : readers) {
      const short wanted = reader.answer.empty() ? POLLIN : POLLOUT;
      waits.push_back({reader.socket.get(), wanted, 0});
      limit = std::min(limit, reader.limit);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now()).count();
    const bool some = ::poll(waits.data(), waits.size(), static_cast<int>(std::max(left, 0L))) > 0;
    if (some && waits[0].revents != 0) return;
    auto wait = waits.begin() + 2;
    for (auto reader = readers.begin(); reader != readers.end();) {
      const bool ready = (wait++)->revents != 0 && some;
      const bool over = (ready && serve(*reader)) || Clock::now() >= reader->limit;
      reader = over ? readers.erase(reader) : std::next(reader);
    }
    if (!some || waits[1].revents == 0) continue;
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open())  // it disconnected, or there are too many open files
      ::poll(waits.data(), 1, moment_ms);
    else
      readers.push_back({std::move(socket), Clock::now() + patience});
    if (readers.size() > most_readers) readers.pop_front();
  }
}

bool MetricsServer::serve(Reader& reader) const {
  std::array<char, 1024> part{};
  while (reader.answer.empty()) {
    const ssize_t bytes = ::recv(reader.socket.get(), part.data(), part.size(), 0);
    if (bytes <= 0) return bytes == 0 || (errno != EAGAIN && errno != EINTR);
    reader.request.append(part.data(), static_cast<std::size_t>(bytes));
    if (reader.request.find("\r\n\r\n") != std::string::npos)
      reader.answer = response_to(reader.request);
    else if (reader.request.size() >= longest_request)
      return true;
  }
  while (!reader.answer.empty()) {
    const ssize_t bytes =
        ::send(reader.socket.get(), reader.answer.data(), reader.answer.size(), MSG_NOSIGNAL);
    if (bytes <= 0) return errno != EAGAIN && errno != EINTR;
    reader.answer.erase(0, static_cast<std::size_t>(bytes));
  }
  return true;
}

std::string MetricsServer::response_to(const std::string& request) const {
  const std::string_view line = std::string_view(request).substr(0, request.find("\r\n"));
  const std::size_t blank = line.find(' ');
  const std::string_view method = line.substr(0, blank);
  const bool head_only = method == "HEAD";
  if (blank == std::string_view::npos || (method != "GET" && !head_only))
    return response("405 Method Not Allowed", "GET /metrics\n", false);
  const std::string_view target = line.substr(blank + 1);
  if (target.substr(0, target.find_first_of(" ?")) != "/metrics")
    return response("404 Not Found", "metrics are at /metrics\n", head_only);
  try {
    return response("200 OK", text_(), head_only);
  } catch (const std::exception& error) {
    return response("500 Internal Server Error", error.what(), head_only);
  }
}

}  // namespace trireme
