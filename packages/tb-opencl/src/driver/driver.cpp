#include "driver/driver.h"

#include <cstdio>
#include <cstring>
#include <sstream>

#include "graph/command_buffer.h"
#include "opencl/failure.h"

using namespace tb::opencl;

namespace {

template <size_t size> void put(char (&field)[size], const std::string &text) {
  std::snprintf(field, size, "%s", text.c_str());
}

// Adds the facts (TB_LACKS_*) that the option "lacks" names: what it takes to try on this device what a lesser one gets.
tb_status read_lacks(const tb_host *host, uint32_t *out) {
  std::istringstream names(host->option("lacks") ? host->option("lacks") : "");
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "float64")
      *out |= TB_LACKS_FLOAT64;
    else if (name == "fma")
      *out |= TB_LACKS_FMA;
    else if (name == "atomic64")
      *out |= TB_LACKS_ATOMIC64;
    else
      return fail(
          host, TB_INVALID_ARGUMENT, 0,
          "the option \"lacks\" (TB_OPENCL_LACKS) is \"%.80s\"; it takes float64, fma and atomic64, with a comma "
          "between them",
          host->option("lacks"));
  }
  return TB_OK;
}

} // namespace

tb_status tb_driver::check(const void *pointer, const char *name) const {
  return pointer ? TB_OK : fail(host, TB_INVALID_ARGUMENT, 0, "%s is NULL", name);
}

tb_status tb_driver::check_device(int32_t device) const {
  if (device >= 0 && static_cast<size_t>(device) < devices.size()) return TB_OK;
  return fail(host, TB_OUT_OF_RANGE, 0, "there is no device %d: the driver has %zu", device, devices.size());
}

tb_status tb_driver::check_flags(uint64_t flags, uint64_t known) const {
  if (!(flags & ~known)) return TB_OK;
  return fail(host, TB_INVALID_ARGUMENT, 0, "unknown flags %#llx", static_cast<unsigned long long>(flags & ~known));
}

tb_status tb_driver::failed(cl_int code, const char *call) const { return fail_call(host, code, call); }

tb_status tb_driver::open() {
  if (const tb_status status = load_library(host, host->option("library"), &cl)) return status;
  if (const tb_status status = choose_devices(host, cl, host->option("device"), host->option("memory"), &devices))
    return status;
  find_extensions(devices.front().platform, &cl);
  if (devices.front().sharing == Sharing::usm &&
      !(cl.clDeviceMemAllocINTEL && cl.clHostMemAllocINTEL && cl.clMemFreeINTEL && cl.clSetKernelArgMemPointerINTEL &&
        cl.clEnqueueMemFillINTEL && cl.clEnqueueMemcpyINTEL))
    return fail(host, TB_UNAVAILABLE, 0,
                "%s names the extension cl_intel_unified_shared_memory and lacks functions of it. Set the option "
                "\"memory\" (TB_OPENCL_MEMORY) to fine or coarse, or update the device's OpenCL driver",
                devices.front().platform_name.c_str());
  prioritizes = takes_il = true;
  std::vector<cl_device_id> ids;
  std::vector<uint64_t> totals, largest;
  for (const Device &device : devices) {
    ids.push_back(device.id);
    prioritizes &= device.has("cl_khr_priority_hints");
    if (graphs_obstacle.empty()) graphs_obstacle = find_graphs_obstacle(cl, device);
    takes_il &= device_text(cl, device.id, CL_DEVICE_IL_VERSION).find("SPIR-V") != std::string::npos;
  }
  if (!cl.clCreateProgramWithIL) cl.clCreateProgramWithIL = cl.clCreateProgramWithILKHR;
  takes_il &= cl.clCreateProgramWithIL != nullptr;
  compiler = takes_il ? find_spirv_compiler(host->option("compiler")) : find_spir_compiler();
  facts.resize(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (const tb_status status = read_facts(static_cast<int32_t>(i))) return status;
    totals.push_back(facts[i].total_memory), largest.push_back(facts[i].max_allocation);
  }
  cl_int code = CL_SUCCESS;
  context = cl.clCreateContext(nullptr, static_cast<cl_uint>(ids.size()), ids.data(), nullptr, nullptr, &code);
  if (code != CL_SUCCESS || !context)
    return fail(host, TB_UNAVAILABLE, code, "clCreateContext failed on %s: %s (%d)",
                devices.front().platform_name.c_str(), name_of(code), code);
  memory.open(host, &cl, context, devices, totals, largest);
  peers.assign(devices.size() * devices.size(), 0);
  for (const cl_device_id id : ids) {
    own_queues.push_back(cl.clCreateCommandQueueWithProperties(context, id, nullptr, &code));
    if (code != CL_SUCCESS) return failed(code, "clCreateCommandQueueWithProperties");
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    defaults.push_back(std::make_unique<tb_stream>());
    defaults.back()->borrowed = true;
    if (const tb_status status = start_stream(defaults.back().get(), static_cast<int32_t>(i), 0, nullptr))
      return defaults.pop_back(), status;
  }
  return TB_OK;
}

tb_driver::~tb_driver() {
  for (const auto &stream : defaults) {
    cl.clFinish(stream->queue);
    end_stream(stream.get());
  }
  for (const Ended &one : ended)
    if (one.point.event) cl.clWaitForEvents(1, one.point.event.address());
  ended.clear();
  ending_host_calls.clear();
  defaults.clear();
  for (const cl_command_queue queue : own_queues)
    if (queue) cl.clReleaseCommandQueue(queue);
  if (context) cl.clReleaseContext(context);
}

tb_status tb_driver::read_facts(int32_t number) {
  const Device &device = devices[static_cast<size_t>(number)];
  const auto fact = [&](cl_uint name, cl_ulong otherwise) {
    return device_number<cl_ulong>(cl, device.id, name, otherwise);
  };
  tb_device_info &info = facts[static_cast<size_t>(number)];
  info.struct_size = sizeof info;
  put(info.name, device.name);
  // What an image is for: devices that take SPIR-V, and those that take its older form, LLVM's bitcode of SPIR.
  put(info.arch, takes_il ? "spirv64" : device.has("cl_khr_spir") ? "spir64" : "opencl");
  if (device.has("cl_khr_device_uuid"))
    cl.clGetDeviceInfo(device.id, CL_DEVICE_UUID_KHR, sizeof info.uuid, info.uuid, nullptr);
  else
    std::snprintf(reinterpret_cast<char *>(info.uuid), sizeof info.uuid, "opencl %d", number);
  info.total_memory = fact(CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  info.max_allocation = fact(CL_DEVICE_MAX_MEM_ALLOC_SIZE, info.total_memory);
  if (info.max_allocation > info.total_memory) info.max_allocation = info.total_memory;
  info.alignment = Memory::alignment;
  info.compute_units = device_number<cl_uint>(cl, device.id, CL_DEVICE_MAX_COMPUTE_UNITS, 0);
  if (prioritizes) info.priority_least = 1, info.priority_greatest = -1;
  info.numa_node = -1;
  // The driver passes a place for failures by arguments of its own.
  const size_t arguments = device_number<size_t>(cl, device.id, CL_DEVICE_MAX_PARAMETER_SIZE, 0);
  constexpr size_t own = sizeof(void *) + sizeof(cl_ulong);
  if (arguments > own) info.max_argument_size = static_cast<uint32_t>(arguments - own);
  if (device.sharing == Sharing::fine) info.flags |= TB_DEVICE_HOST_ACCESSIBLE;
  if (!fact(CL_DEVICE_DOUBLE_FP_CONFIG, 0)) info.lacks |= TB_LACKS_FLOAT64;
  if (!(fact(CL_DEVICE_SINGLE_FP_CONFIG, 0) & CL_FP_FMA)) info.lacks |= TB_LACKS_FMA;
  if (!device.has("cl_khr_int64_base_atomics")) info.lacks |= TB_LACKS_ATOMIC64;
  if (device.is_cpu())
    info.vector_size = static_cast<uint32_t>(
        sizeof(float) * device_number<cl_uint>(cl, device.id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 0));
  return read_lacks(host, &info.lacks);
}

tb_status tb_driver::start_stream(tb_stream *stream, int32_t device, int32_t priority, cl_command_queue queue) {
  stream->driver = this, stream->device = device;
  if (queue) {
    cl.clRetainCommandQueue(queue);
    stream->queue = queue;
  } else {
    const cl_ulong urgency = priority < 0   ? CL_QUEUE_PRIORITY_HIGH_KHR
                             : priority > 0 ? CL_QUEUE_PRIORITY_LOW_KHR
                                            : CL_QUEUE_PRIORITY_MED_KHR;
    const cl_ulong properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE,
                                   prioritizes ? CL_QUEUE_PRIORITY_KHR : 0u, urgency, 0};
    cl_int code = CL_SUCCESS;
    stream->queue =
        cl.clCreateCommandQueueWithProperties(context, devices[static_cast<size_t>(device)].id, properties, &code);
    if (code != CL_SUCCESS) return failed(code, "clCreateCommandQueueWithProperties");
  }
  try {
    stream->word = std::make_shared<FailureWord>(cl, memory, device, own_queues[static_cast<size_t>(device)]);
    const std::lock_guard lock(mutex);
    streams.insert(stream);
  } catch (const std::bad_alloc &) {
    cl.clReleaseCommandQueue(stream->queue);
    return fail(host, TB_OUT_OF_MEMORY, 0, "no memory for a stream's word of failures");
  }
  if (!stream->borrowed) ++objects;
  return TB_OK;
}

void tb_driver::end_stream(tb_stream *stream) {
  std::list<tb_driver::Ended> done; // is destroyed without the lock
  {
    const std::lock_guard lock(mutex);
    captures.leave(stream);
    streams.erase(stream);
    forget_done(&done);
    if (stream->last) ended.push_back({stream->device, stream->point()});
    ending_host_calls.remove_if([](const auto &calls) { return calls->ended(); });
    if (stream->host_calls) {
      stream->host_calls->stop();
      ending_host_calls.push_back(std::move(stream->host_calls));
    }
  }
  cl.clFlush(stream->queue);
  cl.clReleaseCommandQueue(stream->queue);
  if (!stream->borrowed) --objects;
}

// Takes out of the list what is done and has nothing to report.
void tb_driver::forget_done(std::list<Ended> *done) {
  for (auto next = ended.begin(); next != ended.end();) {
    const auto one = next++;
    if (done_without_failure(one->point)) done->splice(done->end(), ended, one);
  }
}
