// Modules are programs: SPIR-V, LLVM's bitcode of SPIR 1.2, or OpenCL C.
#include <cstring>

#include "opencl/failure.h"
#include "slots/modules.h"

namespace tb::opencl {
namespace {

enum class Format { spirv, spir, source, unknown };

Format format_of(const void *image, uint64_t size) {
  const auto *bytes = static_cast<const unsigned char *>(image);
  constexpr unsigned char spirv[] = {0x03, 0x02, 0x23, 0x07}, bitcode[] = {'B', 'C', 0xC0, 0xDE};
  if (size >= 4 && std::memcmp(bytes, spirv, 4) == 0) return Format::spirv;
  if (size >= 4 && std::memcmp(bytes, bitcode, 4) == 0) return Format::spir;
  for (uint64_t i = 0; i < size; ++i)
    if (bytes[i] < 32 && bytes[i] != '\n' && bytes[i] != '\t' && bytes[i] != '\r') return Format::unknown;
  return size ? Format::source : Format::unknown;
}

std::string build_log(tb_driver *self, cl_program program, cl_device_id device) {
  size_t size = 0;
  if (self->cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  self->cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, text.data(), nullptr);
  text.resize(std::strlen(text.c_str()));
  return text;
}

// A program that is released unless it was taken.
struct Program {
  const Functions &cl;
  cl_program program;
  ~Program() {
    if (program) cl.clReleaseProgram(program);
  }
};

// Refuses what the platform cannot read with what it can.
tb_status create(tb_driver *self, cl_device_id device, const void *image, uint64_t size, Format format,
                 cl_program *out) {
  const Functions &cl = self->cl;
  const std::string &platform = self->devices.front().platform_name;
  cl_int code = CL_SUCCESS, binary = CL_SUCCESS;
  if (format == Format::unknown)
    return fail(self->host, TB_INVALID_ARGUMENT, 0,
                "the image of %llu bytes is neither SPIR-V, nor LLVM's bitcode of SPIR, nor OpenCL C",
                static_cast<unsigned long long>(size));
  if (format == Format::spirv && !self->takes_il)
    return fail(
        self->host, TB_UNSUPPORTED, 0,
        "the image is SPIR-V, which %s does not load. Compile it to LLVM's bitcode of SPIR 1.2 (llvm-spirv -r), "
        "or give OpenCL C",
        platform.c_str());
  size_t length = size;
  const auto *bytes = static_cast<const unsigned char *>(image);
  const auto *text = static_cast<const char *>(image);
  if (format == Format::spirv)
    *out = cl.clCreateProgramWithIL(self->context, image, length, &code);
  else if (format == Format::source)
    *out = cl.clCreateProgramWithSource(self->context, 1, &text, &length, &code);
  else
    *out = cl.clCreateProgramWithBinary(self->context, 1, &device, &length, &bytes, &binary, &code);
  if (code == CL_SUCCESS) code = binary;
  if (code == CL_SUCCESS) return TB_OK;
  if (*out) cl.clReleaseProgram(*out);
  return fail(self->host, TB_INVALID_ARGUMENT, code, "%s does not read the image of %llu bytes: %s (%d)",
              platform.c_str(), static_cast<unsigned long long>(size), name_of(code), code);
}

const char *options_of(Format format) {
  return format == Format::source ? "-cl-std=CL3.0 -cl-kernel-arg-info"
         : format == Format::spir ? "-x spir -spir-std=1.2"
                                  : "";
}

ArgumentPlace place_of(const Functions &cl, cl_kernel kernel, cl_uint index) {
  cl_uint where = 0;
  if (cl.clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, nullptr) !=
      CL_SUCCESS)
    return ArgumentPlace::unknown;
  switch (where) {
  case CL_KERNEL_ARG_ADDRESS_GLOBAL:
  case CL_KERNEL_ARG_ADDRESS_CONSTANT:
    return ArgumentPlace::pointer;
  case CL_KERNEL_ARG_ADDRESS_LOCAL:
    return ArgumentPlace::shared;
  default:
    return ArgumentPlace::value;
  }
}

tb_status read_info(tb_driver *self, cl_kernel kernel, cl_device_id device, tb_function_info *out) {
  size_t threads = 0;
  cl_ulong shared = 0, local = 0;
  const auto ask = [&](cl_uint what, size_t size, void *value) {
    return self->cl.clGetKernelWorkGroupInfo(kernel, device, what, size, value, nullptr);
  };
  const cl_int code = ask(CL_KERNEL_WORK_GROUP_SIZE, sizeof threads, &threads);
  if (code != CL_SUCCESS) return self->failed(code, "clGetKernelWorkGroupInfo");
  ask(CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared);
  ask(CL_KERNEL_PRIVATE_MEM_SIZE, sizeof local, &local);
  out->struct_size = sizeof *out;
  out->max_threads = static_cast<uint32_t>(threads), out->shared_size = static_cast<uint32_t>(shared);
  out->local_size = local;
  return TB_OK;
}

} // namespace

tb_status module_load(tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                      tb_module **out) {
  if (const tb_status status = self->check_device(device)) return status;
  if (const tb_status status = self->check(image, "image")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  const cl_device_id id = self->devices[static_cast<size_t>(device)].id;
  const Format format = format_of(image, size);
  Program made{self->cl, nullptr};
  if (const tb_status status = create(self, id, image, size, format, &made.program)) {
    made.program = nullptr;
    return status;
  }
  const std::string all = std::string(options_of(format)) + " " + (options ? options : "");
  const cl_int code = self->cl.clBuildProgram(made.program, 1, &id, all.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS)
    return fail(self->host, TB_INVALID_ARGUMENT, code, "%s does not build the image: %s (%d)\n%s",
                self->devices.front().platform_name.c_str(), name_of(code), code,
                build_log(self, made.program, id).c_str());
  auto module = std::make_unique<tb_module>();
  module->driver = self, module->device = device;
  module->program = std::exchange(made.program, nullptr);
  ++self->objects;
  *out = module.release();
  return TB_OK;
}

tb_status module_unload(tb_driver *self, tb_module *module) {
  if (const tb_status status = self->check(module, "module")) return status;
  for (const auto &[name, function] : module->functions) self->cl.clReleaseKernel(function->kernel);
  self->cl.clReleaseProgram(module->program); // queued launches keep what they need
  delete module;
  --self->objects;
  return TB_OK;
}

tb_status module_function(tb_driver *self, tb_module *module, const char *name, tb_function **out) {
  if (const tb_status status = self->check(module, "module")) return status;
  if (const tb_status status = self->check(name, "name")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  const Functions &cl = self->cl;
  const std::lock_guard lock(module->mutex);
  if (const auto known = module->functions.find(name); known != module->functions.end())
    return *out = known->second.get(), TB_OK;
  cl_int code = CL_SUCCESS;
  auto made = std::make_unique<tb_function>();
  made->module = module, made->name = name;
  made->kernel = cl.clCreateKernel(module->program, name, &code);
  if (code == CL_INVALID_KERNEL_NAME) return fail(self->host, TB_NOT_FOUND, code, "the module has no kernel %s", name);
  if (code != CL_SUCCESS) return self->failed(code, "clCreateKernel");
  const tb_status status =
      read_info(self, made->kernel, self->devices[static_cast<size_t>(module->device)].id, &made->info);
  cl_uint count = 0;
  cl.clGetKernelInfo(made->kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
  for (cl_uint i = 0; i < count; ++i) made->arguments.push_back(place_of(cl, made->kernel, i));
  if (status != TB_OK) return cl.clReleaseKernel(made->kernel), status;
  *out = made.get();
  module->functions.emplace(name, std::move(made));
  return TB_OK;
}

tb_status function_get_info(tb_driver *self, tb_function *function, tb_function_info *out) {
  if (const tb_status status = self->check(function, "function")) return status;
  if (const tb_status status = self->check(out, "out")) return status;
  return tb_struct_fill(out, &function->info);
}

} // namespace tb::opencl
