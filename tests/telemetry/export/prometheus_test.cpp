// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>

#include "runtime/base/file.h"
#include "runtime/telemetry/export/exporters.h"
#include "runtime/telemetry/export/prometheus_export.h"
#include "runtime/telemetry/export/prometheus_families.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

using test::expect_error;
using test::read_text;
using test::sample_evaluation;
using test::sample_facts;
using test::sample_step;
using test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A socket that listens on a port of the system's choice.
struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t size = sizeof address;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket.get(), 1) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port");
    port = ntohs(address.sin_port);
  }
  FileDescriptor socket;
  int port = 0;
};

const std::string host = "127.0.0.1";

int free_port() {
  return Listener().port;
}

FileDescriptor connect_to(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return {};
  return socket;
}

std::string ask(int port, const std::string& request) {
  const FileDescriptor socket = connect_to(port);
  if (!socket.is_open()) return "refused";
  if (::write(socket.get(), request.data(), request.size()) < 0) return "not written";
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(socket.get(), bytes, sizeof bytes)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
  return answer;
}

std::string get(int port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n");
}

const StepMetric& row(std::string_view name) {
  for (const StepMetric& metric : step_metrics())
    if (metric.name == name) return metric;
  throw std::runtime_error("no such metric");
}

TEST(PrometheusName, HasBaseUnitsAndTheSuffixesOfTheField) {
  const auto name = [](const char* key) { return prometheus_name(row(key), ItemKind::images); };

  EXPECT_EQ(name("loss"), "trireme_loss");
  EXPECT_EQ(name("step_ms"), "trireme_step_seconds");
  EXPECT_EQ(name("items_per_s"), "trireme_images_per_second");
  EXPECT_EQ(name("model_gflops_per_s"), "trireme_model_flops_per_second");
  EXPECT_EQ(name("items_seen"), "trireme_images_seen_total");
  EXPECT_EQ(name("skipped_steps"), "trireme_skipped_steps_total");
}

TEST(PrometheusFile, HasEveryMetricOfTheTableAndNoOther) {
  const TemporaryDirectory directory;
  PrometheusFile file(sample_facts(directory.path()));

  file.step(sample_step(7));
  file.evaluation(sample_evaluation(7));

  const std::string text = read_text(directory.file("metrics.prom"));
  std::set<std::string> expected;
  const auto expect = [&](const MetricInfo& metric) {
    const std::string name = prometheus_name(metric, ItemKind::tokens);
    EXPECT_THAT(text, HasSubstr("\n" + name + "{run=\"runs/sample\"} "));
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " " + std::string(metric.meaning) + "\n"));
    const bool counts = metric.kind == MetricKind::counter;
    EXPECT_THAT(text, HasSubstr("# TYPE " + name + (counts ? " counter\n" : " gauge\n")));
    expected.insert(name);
  };
  std::ranges::for_each(run_metrics(), expect);
  std::ranges::for_each(step_metrics(), expect);
  std::ranges::for_each(evaluation_metrics(), expect);
  std::size_t families = 0;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++at)
    ++families;
  EXPECT_EQ(families, expected.size());
  EXPECT_THAT(text, HasSubstr("trireme_step_seconds{run=\"runs/sample\"} 0.125\n"));
  EXPECT_THAT(text, HasSubstr("trireme_model_flops_per_second{run=\"runs/sample\"} 2000000000000"));
  EXPECT_THAT(text, HasSubstr("trireme_accuracy{run=\"runs/sample\",source=\"books\"} 0.625\n"));
}

TEST(PrometheusFile, SaysWhetherTheRunTrains) {
  const TemporaryDirectory directory;
  PrometheusFile file(sample_facts(directory.path()));
  const auto text = [&] { return read_text(directory.file("metrics.prom")); };

  EXPECT_THAT(text(), HasSubstr("trireme_running{run=\"runs/sample\"} 1\n"));
  file.failed_save({.step = 4, .problem = "disk full"});
  EXPECT_THAT(text(), HasSubstr("trireme_failed_saves_total{run=\"runs/sample\"} 1\n"));
  file.finish(RunEnd::failed);
  EXPECT_THAT(text(), HasSubstr("trireme_running{run=\"runs/sample\"} 0\n"));
}

TEST(PrometheusFile, LeavesNoOtherFileBehind) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  facts.flush_every = {};
  Exporters file({.prometheus = true}, facts);

  for (std::int64_t step = 1; step <= 3; ++step)
    file.step(sample_step(step));

  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    EXPECT_EQ(entry.path().filename(), "metrics.prom");
    ++files;
  }
  EXPECT_EQ(files, 1U);
}

TEST(PrometheusFile, EscapesTheRunsName) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  facts.name = "a\"b\\c\nd";

  const PrometheusFile file(facts);

  EXPECT_THAT(read_text(directory.file("metrics.prom")), HasSubstr(R"({run="a\"b\\c\nd"})"));
}

TEST(PrometheusServer, AnswersWithTheNewestValues) {
  const TemporaryDirectory directory;
  const int port = free_port();
  PrometheusServer server(host, port, sample_facts(directory.path()));

  server.step(sample_step(7));

  const std::string answer = get(port, "/metrics");
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("trireme_steps_done_total{run=\"runs/sample\"} 7\n"));
  EXPECT_THAT(answer, Not(HasSubstr("trireme_validation_loss")));
  server.evaluation(sample_evaluation(7));
  EXPECT_THAT(get(port, "/metrics"), HasSubstr("trireme_validation_loss"));
}

// As much thread-local data as cuBLAS adds to every thread of a GPU build, and a little more.
thread_local std::array<char, 110 << 10> of_a_library;

TEST(PrometheusServer, HasRoomForTheThreadLocalDataOfLargeLibraries) {
  of_a_library[0] = 1;
  const TemporaryDirectory directory;
  const int port = free_port();
  const PrometheusServer server(host, port, sample_facts(directory.path()));

  EXPECT_THAT(get(port, "/metrics?a=b"), HasSubstr("HTTP/1.1 200 OK\r\n"));
}

TEST(PrometheusServer, AnswersOthersWhileManyAreSilent) {
  const TemporaryDirectory directory;
  const int port = free_port();
  const PrometheusServer server(host, port, sample_facts(directory.path()));
  std::vector<FileDescriptor> silent;
  while (silent.size() < 20)
    silent.push_back(connect_to(port));

  EXPECT_THAT(get(port, "/metrics"), HasSubstr("trireme_running"));
  // None had to go first.
  char byte = 0;
  EXPECT_EQ(::recv(silent[0].get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(PrometheusServer, OtherRequestsGetThePathOfMetrics) {
  const TemporaryDirectory directory;
  const int port = free_port();
  const PrometheusServer server(host, port, sample_facts(directory.path()));

  EXPECT_THAT(get(port, "/"), AllOf(HasSubstr("404 Not Found"), HasSubstr("/metrics")));
  EXPECT_THAT(ask(port, "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(ask(port, "\r\n\r\n"), HasSubstr("405"));
  EXPECT_EQ(ask(port, std::string(9000, 'a')), "");
  const std::string head = ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(
      head, AllOf(HasSubstr("200 OK"), HasSubstr("Content-Length: "), Not(HasSubstr("trireme_"))));
}

TEST(PrometheusServer, OnAPortInUseIsRefusedWithTheReason) {
  const TemporaryDirectory directory;
  const Listener other;

  expect_error(
      ExitCode::config,
      [&] { const PrometheusServer server(host, other.port, sample_facts(directory.path())); },
      "telemetry.prometheus_port: " + std::to_string(other.port) +
          ": cannot listen on this port of 127.0.0.1: Address already in use; choose another port, "
          "or 0 for "
          "none");
}

}  // namespace
}  // namespace trireme
