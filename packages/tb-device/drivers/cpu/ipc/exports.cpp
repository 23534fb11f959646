// Serves exported files and fetches those of other processes.
#include "drivers/cpu/ipc/exports.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "drivers/common/error_text.h"
#include "drivers/common/signals.h"

namespace tb::drivers::cpu {

namespace {

constexpr uint32_t magic_number = 0x49425431; // "1TBI" in memory
constexpr timeval patience_limit = {5, 0};    // with a process that is stopped

// tb_ipc_handle.bytes
struct Content {
  uint32_t magic;
  Exports::Kind kind;
  Exports::Token exporter, token;
  uint64_t size;
  uint8_t unused[64];
  uint64_t checksum; // of all before: FNV-1a
};
static_assert(sizeof(Content) == sizeof(tb_ipc_handle::bytes));

uint64_t checksum(const Content &content) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto *bytes = reinterpret_cast<const uint8_t *>(&content);
  for (size_t place = 0; place < offsetof(Content, checksum); ++place) hash = (hash ^ bytes[place]) * 0x100000001b3;
  return hash;
}

bool random_token(Exports::Token &out) { return getrandom(out.data(), out.size(), 0) == ssize_t(out.size()); }

socklen_t address_of(const Exports::Token &exporter, sockaddr_un *out) {
  *out = {};
  out->sun_family = AF_UNIX;
  int length = std::snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "tb-cpu-"); // after a zero: abstract
  for (const uint8_t byte : exporter)
    length +=
        std::snprintf(out->sun_path + 1 + length, sizeof out->sun_path - 1 - static_cast<size_t>(length), "%02x", byte);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

File connect_to(const Exports::Token &exporter) {
  sockaddr_un address;
  const socklen_t length = address_of(exporter, &address);
  File connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) return connection;
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience_limit, sizeof patience_limit);
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &patience_limit, sizeof patience_limit);
  if (connect(connection.get(), reinterpret_cast<sockaddr *>(&address), length) != 0) return File();
  return connection;
}

// One byte, and the file when there is one.
bool send_file(int connection, int file) {
  char byte = file >= 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

// False with errno when there was no answer; no file when the exporter has none for the token.
bool receive_file(int connection, File *out) {
  char byte = 0;
  iovec part = {&byte, 1};
  int file = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (size < 1) {
    if (size == 0) errno = ECONNRESET;
    return false;
  }
  const cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (byte && header && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    *out = File(file);
  }
  return true;
}

} // namespace

Exports::~Exports() {
  if (!thread_.joinable()) return;
  shutdown(listener_.get(), SHUT_RDWR); // accept() ends
  thread_.join();
}

tb_status Exports::start() {
  if (thread_.joinable()) return TB_OK;
  if (!random_token(name_)) return fail_native(host_, TB_UNAVAILABLE, errno, "the system gives no random numbers");
  sockaddr_un address;
  const socklen_t length = address_of(name_, &address);
  File listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(listener.get(), 64) != 0)
    return fail_native(host_, TB_UNAVAILABLE, errno, "the system gives no socket to export through (%s)",
                       std::strerror(errno));
  listener_ = std::move(listener);
  try {
    SignalsBlocked blocked;
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error &error) {
    return fail_native(host_, TB_UNAVAILABLE, error.code().value(), "the system gives no thread to export with (%s)",
                       error.code().message().c_str());
  }
  return TB_OK;
}

tb_status Exports::publish(int file, Kind kind, uint64_t size, std::unique_ptr<Publication> *out) {
  Token token;
  if (!random_token(token)) return fail_native(host_, TB_UNAVAILABLE, errno, "the system gives no random numbers");
  std::unique_ptr<Publication> publication(new Publication(*this, token, kind, size)); // goes after the lock
  std::lock_guard lock(mutex_);
  if (const tb_status status = start()) return status;
  files_.emplace(token, file);
  *out = std::move(publication);
  return TB_OK;
}

void Exports::withdraw(const Token &token) noexcept {
  std::lock_guard lock(mutex_);
  files_.erase(token);
}

void Exports::write_handle(const Token &token, Kind kind, uint64_t size, tb_ipc_handle *out) const {
  Content content = {magic_number, kind, name_, token, size, {}, 0};
  content.checksum = checksum(content);
  std::memcpy(out->bytes, &content, sizeof content);
}

void Exports::serve() {
  pthread_setname_np(pthread_self(), "tb-cpu-exports");
  for (;;) {
    const File connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) {
      answer(connection.get());
    } else if (errno == EINVAL || errno == EBADF) {
      return; // shut down
    } else if (errno != EINTR && errno != ECONNABORTED) {
      usleep(10000); // out of descriptors or memory: the caller's patience covers it
    }
  }
}

void Exports::answer(int connection) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) return;
  // A caller sends at once; one that does not must not hold up the others for long.
  const timeval patience = {0, 200000};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  Token token;
  if (recv(connection, token.data(), token.size(), 0) != ssize_t(token.size())) return;
  File file;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = files_.find(token); found != files_.end()) {
      char path[32];
      std::snprintf(path, sizeof path, "/proc/self/fd/%d", found->second);
      file = File(open(path, O_RDWR | O_CLOEXEC));
      if (!file) return; // the caller sees a broken connection
    }
  }
  send_file(connection, file.get());
}

tb_status Exports::fetch(const tb_host *host, const tb_ipc_handle &handle, Kind kind, File *out, uint64_t *out_size) {
  Content content;
  std::memcpy(&content, handle.bytes, sizeof content);
  if (content.magic != magic_number || content.checksum != checksum(content))
    return fail(host, TB_INVALID_ARGUMENT, "these bytes are no handle that a CPU driver exported");
  if (content.kind != kind)
    return fail(host, TB_INVALID_ARGUMENT, "the handle is of %s, not of %s",
                content.kind == Kind::event ? "an event" : "memory", kind == Kind::event ? "an event" : "memory");
  const File connection = connect_to(content.exporter);
  if (!connection && errno == ECONNREFUSED)
    return fail(host, TB_DATA_LOSS,
                "the process that exported the handle has ended, or has closed its driver, or is in another network "
                "namespace");
  File file;
  if (!connection ||
      send(connection.get(), content.token.data(), content.token.size(), MSG_NOSIGNAL) !=
          ssize_t(content.token.size()) ||
      !receive_file(connection.get(), &file)) {
    const int code = errno;
    if (code == EAGAIN) return fail(host, TB_DEADLINE_EXCEEDED, "the process that exported the handle does not answer");
    return fail_native(host, code == ECONNRESET || code == EPIPE ? TB_DATA_LOSS : TB_UNAVAILABLE, code,
                       "the process that exported the handle gave no answer (%s)", std::strerror(code));
  }
  if (!file) return fail(host, TB_NOT_FOUND, "the exporting process has freed what the handle stands for");
  *out = std::move(file);
  *out_size = content.size;
  return TB_OK;
}

} // namespace tb::drivers::cpu
