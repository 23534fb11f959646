// A second process with the same driver, for cases about processes (exit, signals, sharing).
//
//   TB_CHILD(ipc_import) {                               // runs in the second process, with its own kit
//     const std::string handle = parent.receive();
//     ...CHECK as in a case...
//     parent.send("seen");
//   }
//   TB_CASE(IPC, 01, ...) {
//     kit::Child child(kit, "ipc_import");
//     child.send(handle);
//     CHECK_EQUAL(child.receive(), std::string("seen"));
//     child.finish();
//   }
//
// The process is a fresh one (not a fork: nothing may be called in a forked child, rule T6). Messages are bytes of any
// length. A check that fails in the child fails the case, with the child's text.
#pragma once

#include <sys/types.h>

#include <string>

#include "contract/kit.h"

namespace tb::contract {

// One end of the pipes between the two. Every wait ends after its limit with Failed.
class Channel {
public:
  Channel(int from, int to) : from_(from), to_(to) {}
  ~Channel();
  Channel(const Channel &) = delete;
  Channel &operator=(const Channel &) = delete;
  void send(const std::string &message);
  // Throws Failed with the other side's text when a check failed there, or when it has ended.
  std::string receive(double seconds = 20);
  void send_failure(const std::string &text);
  void close_sending();

private:
  void write(char kind, const std::string &message);
  int from_, to_;
};

class Child {
public:
  // Starts a process that opens the driver and runs TB_CHILD(name).
  Child(Kit &kit, const char *name);
  ~Child(); // kills it if it still runs
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;
  void send(const std::string &message) { channel_->send(message); }
  std::string receive(double seconds = 20) { return channel_->receive(seconds); }
  // Waits for the end; Failed unless it is exit code 0 (`code`) within the limit.
  void finish(int code = 0, double seconds = 20);
  // Sends a signal. After SIGKILL the process has ended when this returns.
  void signal(int number);

private:
  pid_t process_ = -1;
  std::unique_ptr<Channel> channel_;
};

struct ChildRegistration {
  ChildRegistration(const char *name, void (*run)(Kit &kit, Channel &parent));
};

// The second process's main: the channel is on descriptors 3 (from the parent) and 4. Returns the exit code.
int child_main(const Target &target, const Options &options, const std::string &name);

} // namespace tb::contract

namespace kit {
using tb::contract::Child;
} // namespace kit

#define TB_CHILD(name)                                                                                                 \
  static void tb_child_##name(::tb::contract::Kit &kit, ::tb::contract::Channel &parent);                              \
  static const ::tb::contract::ChildRegistration tb_child_registration_##name(#name, tb_child_##name);                 \
  static void tb_child_##name([[maybe_unused]] ::tb::contract::Kit &kit,                                               \
                              [[maybe_unused]] ::tb::contract::Channel &parent)
