// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <cstdlib>

#include "runtime/base/file.h"

namespace trireme {
namespace {

constexpr std::size_t longest_secret = 4096;
constexpr const char* how_to_make =
    "a long random one, the same for all ranks (for example: openssl rand -hex 32)";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string read_secret(const std::string& path) {
  const FileDescriptor file = open_for_reading(path, ExitCode::config);
  const std::uint64_t bytes = regular_file_size(file, path, ExitCode::config);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) system_failed("fstat", path, ExitCode::config);
  if ((status.st_mode & S_IRWXO) != 0) {
    fail(ExitCode::config,
         "TRIREME_SECRET_FILE={}: other users of this host may read or write it; chmod 600 it",
         path);
  }
  if (bytes > longest_secret)
    fail(ExitCode::config, "TRIREME_SECRET_FILE={}: {} bytes, but a secret has at most {}", path,
         bytes, longest_secret);
  std::string text(bytes, '\0');
  read_exactly(file, path, 0, std::as_writable_bytes(std::span(text)), ExitCode::config);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  return text;
}

}  // namespace

TcpSecret TcpSecret::of_environment() {
  std::string value = variable("TRIREME_SECRET");
  const std::string path = variable("TRIREME_SECRET_FILE");
  if (value.empty() && path.empty()) return {};
  if (!value.empty() && !path.empty())
    fail(ExitCode::config, "TRIREME_SECRET and TRIREME_SECRET_FILE={} are both set; unset one",
         path);
  if (value.empty()) value = read_secret(path);
  // Messages must not contain the value.
  if (value.size() < min_bytes) {
    fail(ExitCode::config, "{}: a secret of {} bytes can be guessed; use {}",
         path.empty() ? "TRIREME_SECRET" : fmt::format("TRIREME_SECRET_FILE={}", path),
         value.size(), how_to_make);
  }
  return TcpSecret(std::move(value));
}

TcpProof TcpSecret::prove(std::string_view message) const {
  TcpProof proof;
  unsigned length = 0;
  const auto* const made =
      HMAC(EVP_sha256(), value_.data(), static_cast<int>(value_.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr || length != proof.size())
    library_failed("HMAC", "OpenSSL has no SHA-256", ExitCode::communication);
  return proof;
}

bool TcpSecret::proves(std::string_view message, const TcpProof& proof) const {
  const TcpProof expected = prove(message);
  return CRYPTO_memcmp(expected.data(), proof.data(), proof.size()) == 0;
}

TcpNonce new_tcp_nonce() {
  TcpNonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    library_failed("RAND_bytes", "no random numbers", ExitCode::communication);
  return nonce;
}

}  // namespace trireme
