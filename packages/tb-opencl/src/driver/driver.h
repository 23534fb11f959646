// The driver: its devices, and what is alive.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "graph/capture.h"
#include "kernels/compiler.h"
#include "memory/memory.h"
#include "streams/stream.h"
#include "tb/driver.h"

struct tb_driver {
  explicit tb_driver(const tb_host *given) : host(given) {}
  tb_driver(const tb_driver &) = delete;
  tb_driver &operator=(const tb_driver &) = delete;

  // Finds the library and the devices. TB_OK, or a failure with a text; the destructor then clears what there is.
  tb_status open();
  ~tb_driver();

  // TB_OK, or why the arguments of a call are invalid (rule E7).
  tb_status check(const void *pointer, const char *name) const;
  tb_status check_device(int32_t device) const;
  tb_status check_flags(uint64_t flags, uint64_t known) const;
  // Gives a stream its queue and puts it into the list. `queue`: an existing queue to share, or null.
  tb_status start_stream(tb_stream *stream, int32_t device, int32_t priority, tb::opencl::cl_command_queue queue);
  // Takes a stream out of the list and lets its queued work go on.
  void end_stream(tb_stream *stream);
  // A failure with OpenCL's error.
  tb_status failed(tb::opencl::cl_int code, const char *call) const;

  const tb_host *const host;
  tb::opencl::Functions cl;
  tb::opencl::Compiler compiler;
  std::vector<tb::opencl::Device> devices;
  std::vector<tb_device_info> facts;
  bool prioritizes = false; // cl_khr_priority_hints
  bool takes_il = false;    // all devices load SPIR-V
  tb::opencl::cl_context context = nullptr;
  tb::opencl::Memory memory;
  tb::opencl::Captures captures{host};
  std::string graphs_obstacle;                          // why the driver has no graphs, or empty
  std::vector<tb::opencl::cl_command_queue> own_queues; // one a device, for copies that no stream orders
  std::vector<std::unique_ptr<tb_stream>> defaults;     // one a device

  std::mutex mutex;                        // of what follows
  std::unordered_set<tb_stream *> streams; // the default ones too
  struct Ended {
    int32_t device;
    tb::opencl::Point point;
  };
  std::list<Ended> ended;                                              // what destroyed streams still have to do
  std::vector<uint8_t> peers;                                          // device * count + peer: enabled
  std::list<std::unique_ptr<tb::opencl::HostCalls>> ending_host_calls; // of destroyed streams

  std::atomic<int64_t> objects{0}; // streams, events, modules, graphs and executables

private:
  tb_status read_facts(int32_t number);
  void forget_done(std::list<Ended> *done);
};
