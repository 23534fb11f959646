// mychip.cpp -- a driver of level 0: the memory and copies of one device, which is host memory until your chip's calls
// stand here. Rules such as E7 and V2 are in tb/driver.h, those of a function (mem_alloc.2) in tb/driver_slots.inc.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tb/driver.h"

namespace {

// What a function of the driver throws; `slot` below turns it into the status and the text that the host reads.
struct Failure {
  tb_status status;
  const char *text;
};

void check_device(int32_t device) {
  if (device != 0) throw Failure{TB_OUT_OF_RANGE, "mychip has one device, number 0"};
}

void check_out(const void *out) {
  if (!out) throw Failure{TB_INVALID_ARGUMENT, "the out-parameter is NULL"};
}

} // namespace

// One for each time the driver is opened: nothing is shared between two of them. Any thread may call (T1).
struct tb_driver {
  explicit tb_driver(const tb_host *given) : host(given) {}

  void get_info(tb_driver_info *out) {
    static const tb_driver_info info = {.struct_size = sizeof(tb_driver_info),
                                        .dlpack_type = 12, // DLPack's number for extension devices
                                        .name = "mychip",
                                        .vendor = "Your Company",
                                        .version = "0.1.0",
                                        .native = "host"};
    check_out(out);
    tb_struct_fill(out, &info);
  }

  void device_count(int32_t *out) {
    check_out(out);
    *out = 1;
  }

  void device_get_info(int32_t device, tb_device_info *out) {
    check_device(device);
    check_out(out);
    tb_device_info info = {};
    info.struct_size = sizeof info;
    info.flags = TB_DEVICE_HOST_ACCESSIBLE;
    std::strcpy(info.name, "mychip");
    info.uuid[0] = 1; // the chip's own
    info.total_memory = info.max_allocation = capacity;
    info.alignment = 64;
    info.compute_units = 1;
    info.numa_node = -1;
    tb_struct_fill(out, &info);
  }

  void mem_alloc(int32_t device, uint64_t size, uint64_t flags, void **out) {
    check_device(device);
    check_out(out);
    if (flags) throw Failure{TB_INVALID_ARGUMENT, "mychip knows no flags: pass 0"};
    if (size > capacity) throw std::bad_alloc(); // before the sum below, which could overflow
    const uint64_t bytes = size ? (size + 63) / 64 * 64 : 64;
    void *block = std::aligned_alloc(64, header + bytes);
    if (!block) throw std::bad_alloc();
    if ((used += bytes) > capacity) {
      used -= bytes;
      std::free(block);
      throw std::bad_alloc();
    }
    *static_cast<uint64_t *>(block) = bytes;
    *out = static_cast<char *>(block) + header;
  }

  void mem_free(int32_t device, void *ptr) {
    check_device(device);
    if (!ptr) return;
    void *block = static_cast<char *>(ptr) - header;
    used -= *static_cast<uint64_t *>(block);
    std::free(block);
  }

  // The stream is NULL: without the group ASYNC copies and fills are done on return.
  void mem_copy(int32_t device, tb_stream *, void *dst, const void *src, uint64_t size, int32_t kind) {
    check_device(device);
    if (kind < TB_COPY_HOST_TO_DEVICE || kind > TB_COPY_DEVICE_TO_DEVICE)
      throw Failure{TB_INVALID_ARGUMENT, "kind must be one of TB_COPY_*"};
    if (size) std::memmove(dst, src, size);
  }

  void mem_set(int32_t device, tb_stream *, void *dst, uint32_t pattern, uint32_t width, uint64_t count) {
    check_device(device);
    if (width != 1 && width != 2 && width != 4) throw Failure{TB_INVALID_ARGUMENT, "pattern_size must be 1, 2 or 4"};
    for (uint64_t i = 0; i < count; ++i)
      std::memcpy(static_cast<char *>(dst) + i * width, &pattern, width); // the low bytes: a little-endian device
  }

  static constexpr uint64_t capacity = uint64_t{1} << 30; // bytes of memory that the device has
  static constexpr uint64_t header = 64; // bytes before each block: they hold its size and keep it aligned

  const tb_host *const host;
  std::atomic<uint64_t> used{0}; // bytes of live blocks
};

namespace {

// slot<&tb_driver::mem_alloc>: a member function as the table has it. No exception leaves the driver (E5).
template <auto Member> struct Slot;
template <class... A, void (tb_driver::*Member)(A...)> struct Slot<Member> {
  static tb_status call(tb_driver *self, A... arguments) noexcept {
    try {
      (self->*Member)(arguments...);
      return TB_OK;
    } catch (const Failure &failure) {
      return tb_fail(self->host, failure.status, failure.text);
    } catch (const std::bad_alloc &) {
      return tb_fail(self->host, TB_OUT_OF_MEMORY, "mychip's 1 GiB of memory has not so much room");
    } catch (...) {
      return tb_fail(self->host, TB_INTERNAL, "mychip met an exception that it does not know");
    }
  }
};
template <auto Member> constexpr auto slot = Slot<Member>::call;

tb_status close_driver(tb_driver *self) {
  if (self->used) return tb_fail(self->host, TB_FAILED_PRECONDITION, "memory of mychip is allocated: free it first");
  delete self;
  return TB_OK;
}

} // namespace

extern "C" TB_EXPORT tb_status tb_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  tb_driver_api mine = {};
  mine.struct_size = sizeof mine;
  mine.abi_major = TB_ABI_MAJOR;
  mine.abi_minor = TB_ABI_MINOR;
  mine.groups = TB_GROUP_CORE;
  mine.build_id = "mychip 0.1.0";
  mine.close = close_driver;
  mine.get_info = slot<&tb_driver::get_info>;
  mine.device_count = slot<&tb_driver::device_count>;
  mine.device_get_info = slot<&tb_driver::device_get_info>;
  mine.mem_alloc = slot<&tb_driver::mem_alloc>;
  mine.mem_free = slot<&tb_driver::mem_free>;
  mine.mem_copy = slot<&tb_driver::mem_copy>;
  mine.mem_set = slot<&tb_driver::mem_set>;
  tb_driver *driver = new (std::nothrow) tb_driver(host);
  if (!driver) return tb_fail(host, TB_OUT_OF_MEMORY, "no memory to open mychip");
  if (tb_status status = tb_driver_fill(api, &mine)) {
    delete driver;
    return tb_fail(host, status, "mychip cannot fill a table that small");
  }
  *self = driver;
  return TB_OK;
}
