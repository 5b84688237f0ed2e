// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/metrics_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int backlog = 16;
constexpr auto patience = std::chrono::seconds(2);  // per reader
constexpr std::size_t longest_request = 8192;

FileDescriptor listen_on(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket.get(), backlog) == 0)
    return socket;
  fail(ExitCode::config,
       "telemetry.prometheus_port: {}: cannot listen on this port: {}; choose another port, or 0 "
       "for none",
       port, std::strerror(errno));
}

// Whether `peer` is ready before the limit, and `end` is not.
bool ready(const FileDescriptor& peer, const FileDescriptor& end, short events,
           Clock::time_point limit) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> wait{{{peer.get(), events, 0}, {end.get(), POLLIN, 0}}};
    const int count = ::poll(wait.data(), wait.size(), static_cast<int>(left));
    if (count < 0 && errno == EINTR) continue;
    return count > 0 && wait[1].revents == 0;
  }
}

// The request up to the empty line; nothing if it does not arrive.
std::optional<std::string> request_of(const FileDescriptor& peer, const FileDescriptor& end,
                                      Clock::time_point limit) {
  std::string request;
  std::array<char, 1024> part{};
  while (request.size() < longest_request && ready(peer, end, POLLIN, limit)) {
    const ssize_t bytes = ::recv(peer.get(), part.data(), part.size(), 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (bytes <= 0) return std::nullopt;
    request.append(part.data(), static_cast<std::size_t>(bytes));
    if (request.find("\r\n\r\n") != std::string::npos) return request;
  }
  return std::nullopt;
}

void send_all(const FileDescriptor& peer, const FileDescriptor& end, std::string_view text,
              Clock::time_point limit) {
  while (!text.empty() && ready(peer, end, POLLOUT, limit)) {
    const ssize_t bytes = ::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (bytes <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(bytes));
  }
}

std::string response(std::string_view status, std::string_view body, bool head_only) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), head_only ? std::string_view() : body);
}

}  // namespace

MetricsServer::MetricsServer(int port, std::function<std::string()> text)
    : text_(std::move(text)), listener_(listen_on(port)), end_(::eventfd(0, EFD_CLOEXEC)) {
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
  pollfd end{end_.get(), POLLIN, 0};
  while (::poll(&end, 1, 0) == 0) {
    if (!ready(listener_, end_, POLLIN, Clock::now() + forever)) continue;
    const FileDescriptor peer(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.is_open())
      answer(peer);
    else  // it disconnected, or there are too many open files
      ::poll(&end, 1, moment_ms);
  }
}

void MetricsServer::answer(const FileDescriptor& peer) const {
  const auto limit = Clock::now() + patience;
  if (const auto request = request_of(peer, end_, limit))
    send_all(peer, end_, response_to(*request), limit);
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
