// A second process with the same driver.
#include "contract/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>

extern char **environ;

namespace tb::contract {
namespace {

constexpr int from_parent = 3, to_parent = 4;
constexpr char message_kind = 'M', failure_kind = 'F';

using Body = void (*)(Kit &, Channel &);

std::map<std::string, Body> &registry() {
  static std::map<std::string, Body> children;
  return children;
}

// False at the end of the stream.
bool read_all(int from, char *out, size_t size, double until) {
  while (size > 0) {
    const double left = until - seconds_now();
    if (left <= 0) throw Failed("the other process did not answer within the time limit of this wait");
    pollfd waiting{from, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    const ssize_t got = ::read(from, out, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return std::string("ended by signal ") + strsignal(WTERMSIG(status));
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

} // namespace

Channel::~Channel() {
  close_sending();
  ::close(from_);
}

void Channel::close_sending() {
  if (to_ >= 0) ::close(to_);
  to_ = -1;
}

void Channel::write(char kind, const std::string &message) {
  const auto size = static_cast<uint32_t>(message.size());
  std::string bytes(1, kind);
  bytes.append(reinterpret_cast<const char *>(&size), sizeof size).append(message);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(to_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Failed("the other process has ended: nothing can be sent to it");
    done += static_cast<size_t>(written);
  }
}

void Channel::send(const std::string &message) { write(message_kind, message); }
void Channel::send_failure(const std::string &text) { write(failure_kind, text); }

std::string Channel::receive(double seconds) {
  const double until = seconds_now() + seconds;
  char head[1 + sizeof(uint32_t)];
  if (!read_all(from_, head, sizeof head, until)) throw Failed("the other process has ended without a message");
  uint32_t size;
  memcpy(&size, head + 1, sizeof size);
  std::string message(size, '\0');
  if (!read_all(from_, message.data(), size, until)) throw Failed("the other process has ended within a message");
  if (head[0] == failure_kind) throw Failed("in the other process: " + message);
  return message;
}

Child::Child(Kit &kit, const char *name) {
  const Target &target = kit.target();
  if (target.child_command.empty()) throw NotOffered("this runner starts no second process");
  std::vector<std::string> words = target.child_command;
  words.insert(words.end(),
               {"--driver", target.name, "--library", target.library, "--seed", std::to_string(target.seed), "--mutant",
                target.mutant, "--layers", target.layers, "--image", target.image, "--child", name});
  for (const auto &[key, value] : kit.options()) words.insert(words.end(), {"--option", key + "=" + value});
  std::vector<char *> arguments;
  for (std::string &word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::signal(SIGPIPE, SIG_IGN); // a child that ended early is found by the write that fails
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC)) throw Failed("no pipe for a second process");
  // Out of the way of 3 and 4, which dup2 would close or, for one that is there already, leave marked close-on-exec.
  const int read_end = fcntl(down[0], F_DUPFD_CLOEXEC, 10), write_end = fcntl(up[1], F_DUPFD_CLOEXEC, 10);
  ::close(down[0]);
  ::close(up[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, read_end, from_parent);
  posix_spawn_file_actions_adddup2(&actions, write_end, to_parent);
  const int problem = posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(read_end);
  ::close(write_end);
  channel_ = std::make_unique<Channel>(up[0], down[1]);
  if (problem) {
    process_ = -1;
    throw Failed(std::string("cannot start ") + arguments[0] + ": " + strerror(problem));
  }
}

Child::~Child() {
  if (process_ > 0) signal(SIGKILL);
}

void Child::finish(int code, double seconds) {
  channel_->close_sending();
  try {
    (void)channel_->receive(seconds);
  } catch (const Failed &failed) {
    // The end of its pipe, a failed check of its own, or the limit.
    if (std::string(failed.what()).starts_with("in the other process")) throw;
  }
  int status = 0;
  const double until = seconds_now() + 1; // its pipe is closed: what is left is the end of the process itself
  pid_t ended;
  while ((ended = waitpid(process_, &status, WNOHANG)) == 0 && seconds_now() < until) usleep(1000);
  if (ended == 0) {
    signal(SIGKILL);
    throw Failed("the other process did not end within " + std::to_string(seconds) + " s");
  }
  process_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != code) throw Failed("the other process " + exit_text(status));
}

void Child::signal(int number) {
  if (process_ <= 0) return;
  ::kill(process_, number);
  if (number != SIGKILL) return;
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

ChildRegistration::ChildRegistration(const char *name, Body run) { registry().emplace(name, run); }

int child_main(const Target &target, const Options &options, const std::string &name) {
  Channel parent(from_parent, to_parent);
  try {
    const auto found = registry().find(name);
    if (found == registry().end()) throw Failed("there is no TB_CHILD(" + name + ")");
    Kit kit(target, options);
    found->second(kit, parent);
    kit.close();
    return 0;
  } catch (const Failed &failed) {
    parent.send_failure(
        std::string(failed.what()) +
        (*failed.file ? " (" + std::string(failed.file) + ":" + std::to_string(failed.line) + ")" : ""));
  } catch (const std::exception &error) {
    parent.send_failure(error.what());
  }
  return 1;
}

} // namespace tb::contract
