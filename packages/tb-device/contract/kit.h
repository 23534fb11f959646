// What a case works with: the driver under test, opened raw, without the host's emulation.
// Guarded by name: GCC 12 sometimes reads a file with #pragma once a second time when it is in a precompiled header.
#ifndef TB_CONTRACT_KIT_H
#define TB_CONTRACT_KIT_H

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/case.h"
#include "tb/driver.h"
#include "tb/graph.h"

namespace tb::contract {

using Options = std::map<std::string, std::string>;

// What is under test and how.
struct Target {
  tb_driver_open_fn open = nullptr;
  std::string name;    // as given: "cpu", or a path
  std::string library; // its file, "" for a driver that is part of tb_device
  std::string image;   // a file with the kernels of tb/contract_kernels.h for module_load, "" if none was given
  std::string mutant;  // changes the table after each open (mutant.h), "" for none
  std::string layers;  // put around the driver after each open (layers/layers.h), "" for none
  uint64_t seed = 1;
  std::vector<std::string> child_command; // starts a second process (child.h); empty where none can be
};

// The text of the last failure on this thread, as the driver gave it, and how often set_error was called.
struct ErrorText {
  tb_status status = TB_OK;
  int64_t native_code = 0;
  std::string text;
  uint64_t calls = 0;
};

// An open driver: the table exactly as the driver, the layers and the mutant left it. NotOffered where the driver does
// not open a second time. Closes at the end of its life; a close that is refused there fails the case.
class Opened {
public:
  Opened(const Target &target, const Options &options);
  ~Opened() noexcept(false);
  Opened(const Opened &) = delete;
  Opened &operator=(const Opened &) = delete;
  // Now instead of at the end. Throws Failed when it is refused; the driver then stays open for good.
  void close();
  tb_driver_api api{};
  tb_driver *self = nullptr;

private:
  int unwinding_ = std::uncaught_exceptions();
};

// Lives as long as the process's open driver; cases share it and leave it as they found it.
class Kit {
public:
  Kit(const Target &target, const Options &options);
  ~Kit() noexcept(false);

  // The last call: closes the driver. Throws Failed when it refuses.
  void close();

  const Target &target() const { return target_; }
  const Options &options() const { return options_; }
  const tb_driver_api &api() const { return opened_->api; }
  tb_driver *self() const { return opened_->self; }
  bool offers(uint64_t groups) const { return (api().groups & groups) == groups; }
  bool has_async() const { return offers(TB_GROUP_ASYNC); }

  int32_t device_count();
  const tb_device_info &info(int32_t device = 0);
  // NotOffered unless the driver has so many devices.
  void need_devices(int32_t count);
  // NotOffered unless the optional function is there: kit.need(kit.api().device_reset, "device_reset").
  template <class F> void need(F function, const char *name) {
    if (!function) throw NotOffered(std::string("no function ") + name);
  }
  // The extension's table, or NotOffered.
  const tb_graph_api &graph();

  // NULL without ASYNC, where functions that take a stream want NULL.
  tb_stream *default_stream(int32_t device = 0);
  // Waits for the stream; returns at once without ASYNC. Checks TB_OK.
  void synchronize(tb_stream *stream);
  // Waits for the device's streams, also for those that were destroyed with work to do.
  void synchronize_device(int32_t device = 0);
  // Copies and waits.
  void to_device(void *dst, const void *src, uint64_t size, int32_t device = 0);
  void to_host(void *dst, const void *src, uint64_t size, int32_t device = 0);
  std::vector<uint8_t> bytes_of(const void *src, uint64_t size, int32_t device = 0);

  // For cases that open the driver themselves. Applies the target's mutant, not its layers.
  tb_status open_raw(const tb_host *host, tb_driver_api *api, tb_driver **self) const;
  // The kit's host: keeps texts per thread, answers option() from `options`.
  static const tb_host *host();

  // Taken: the next call sees none.
  ErrorText take_error();
  void check_status(tb_status got, tb_status want, const char *call, const char *file, int line);
  // Blocks that the driver gave through this table and did not get back: of mem_alloc, mem_alloc_async, mem_alloc_host.
  // What submit_delay keeps is left out.
  int64_t live_blocks() const;
  // A fact that the rules leave to the driver ("overlapping ranges are refused"); shown with the result.
  void state(const std::string &what);
  std::shared_ptr<void> &delay() { return delay_; } // submit_delay's own
  std::vector<std::string> take_statements();

private:
  Target target_;
  Options options_;
  std::unique_ptr<Opened> opened_;
  std::shared_ptr<void> delay_; // after the driver whose memory it holds
  std::vector<tb_device_info> infos_;
  tb_graph_api graph_{};
  std::vector<std::string> statements_;
  int unwinding_ = std::uncaught_exceptions();
};

// ---- Handles that free themselves. Creating checks TB_OK; so does destroying, unless the case has failed already. ----

class Block {
public:
  Block(Kit &kit, uint64_t size, int32_t device = 0);
  ~Block() noexcept(false);
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  uint8_t *data() const { return static_cast<uint8_t *>(data_); }
  uint64_t size() const { return size_; }
  void fill(uint8_t byte);           // on the default stream, and waits
  std::vector<uint8_t> read() const; // waits
  void write(const std::vector<uint8_t> &bytes);

private:
  Kit &kit_;
  int32_t device_;
  uint64_t size_;
  void *data_ = nullptr;
};

// A stream of its own. Needs ASYNC.
class Stream {
public:
  explicit Stream(Kit &kit, int32_t device = 0, int32_t priority = 0);
  ~Stream() noexcept(false);
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  operator tb_stream *() const { return stream_; }
  void synchronize() { kit_.synchronize(stream_); }

private:
  Kit &kit_;
  tb_stream *stream_ = nullptr;
};

class Event {
public:
  explicit Event(Kit &kit, uint64_t flags = 0, int32_t device = 0);
  ~Event() noexcept(false);
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  operator tb_event *() const { return event_; }

private:
  Kit &kit_;
  tb_event *event_ = nullptr;
};

// Runs functions on threads of their own and joins them; the first exception of any comes out of join().
class Threads {
public:
  ~Threads();
  void start(std::function<void()> body);
  void join();

private:
  struct State;
  std::vector<std::thread> threads_;
  std::shared_ptr<State> state_;
};

// ---- Work that takes time, fails, or reports when it ran: by CLOSURE, HOSTCALL or MODULE, whichever is offered. ----

// Holds a stream until opened, so that a case decides when work is done. NotOffered where the driver has neither
// CLOSURE nor HOSTCALL. The destructor opens it and waits for the stream.
class Gate {
public:
  Gate(Kit &kit, tb_stream *stream);
  ~Gate();
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;
  void open();
  bool reached() const; // the stream has come to it

private:
  struct State;
  Kit &kit_;
  tb_stream *stream_;
  std::shared_ptr<State> state_;
};

// NotOffered where a driver has neither CLOSURE nor HOSTCALL: for cases that make raw handles before they queue work.
void need_submit(const Kit &kit);
// Queues a function of the kit's own, in stream order (CLOSURE or HOSTCALL). NotOffered without both.
void submit(Kit &kit, tb_stream *stream, std::function<void()> function);
// Queues work that fails with `status` and `text` (CLOSURE only; NotOffered without).
void submit_failure(Kit &kit, tb_stream *stream, tb_status status, const char *text);
// Queues about `milliseconds` of work: a sleep where submit() works, else copies of the device's own, measured once.
void submit_delay(Kit &kit, tb_stream *stream, double milliseconds);

// ---- Facts of the process, for cases about leaks. ----

uint64_t resident_bytes(); // NotOffered under a sanitizer
int open_descriptors();
int thread_count();
// How many there are beyond `most`. Waits up to two seconds for none: a joined thread leaves the system's list a little
// later.
int threads_beyond(int most);
double seconds_now(); // steady clock
double cpu_seconds(); // of this thread

} // namespace tb::contract

namespace kit {
using tb::contract::Block;
using tb::contract::Event;
using tb::contract::Gate;
using tb::contract::Stream;
using tb::contract::Threads;
} // namespace kit

#endif
