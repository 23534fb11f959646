// functions.h -- the work of each function, which is called after the checks of entry.h. functions.inc lists them.
#pragma once

#include "acl.h"

namespace sim {

Error aclInit(const char *config);
Error aclFinalize();
const char *aclGetRecentErrMsg();

Error aclrtGetDeviceCount(uint32_t *count);
Error aclrtSetDevice(int32_t device);
Error aclrtResetDevice(int32_t device);
Error aclrtGetDevice(int32_t *device);
Error aclrtGetCurrentContext(void **context);
Error aclrtSetCurrentContext(void *context);
Error aclrtSynchronizeDevice();
const char *aclrtGetSocName();
Error aclrtGetDeviceInfo(uint32_t device, int32_t attribute, int64_t *value);
Error aclrtDeviceGetUuid(int32_t device, char *uuid);
Error aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
Error aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
Error aclrtDeviceDisablePeerAccess(int32_t peer);

Error aclrtMalloc(void **out, size_t size, int32_t policy);
Error aclrtMallocAlign32(void **out, size_t size, int32_t policy);
Error aclrtFree(void *pointer);
Error aclrtGetMemInfo(int32_t attribute, size_t *free, size_t *total);
Error aclrtMallocHost(void **out, size_t size);
Error aclrtFreeHost(void *pointer);
Error aclrtHostRegister(void *pointer, uint64_t size, int32_t type, void **device_pointer);
Error aclrtHostUnregister(void *pointer);
Error aclrtPointerGetAttributes(const void *pointer, PointerAttributes *out);

Error aclrtMemcpy(void *dst, size_t room, const void *src, size_t size, int32_t kind);
Error aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t size, int32_t kind, void *stream);
Error aclrtMemcpy2dAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                         int32_t kind, void *stream);
Error aclrtMemset(void *dst, size_t room, int32_t byte, size_t size);
Error aclrtMemsetAsync(void *dst, size_t room, int32_t byte, size_t size, void *stream);

Error aclrtReserveMemAddress(void **out, size_t size, size_t alignment, void *hint, uint64_t flags);
Error aclrtReleaseMemAddress(void *address);
Error aclrtMallocPhysical(void **out, size_t size, const PhysicalProperties *properties, uint64_t flags);
Error aclrtFreePhysical(void *handle);
Error aclrtMapMem(void *address, size_t size, size_t offset, void *handle, uint64_t flags);
Error aclrtUnmapMem(void *address);
Error aclrtMemGetAllocationGranularity(const PhysicalProperties *properties, int32_t option, size_t *out);

Error aclrtCreateStream(void **out);
Error aclrtCreateStreamWithConfig(void **out, uint32_t priority, uint32_t flags);
Error aclrtDestroyStream(void *stream);
Error aclrtSynchronizeStream(void *stream);
Error aclrtStreamQuery(void *stream, int32_t *status);
Error aclrtStreamWaitEvent(void *stream, void *event);
Error aclrtStreamGetId(void *stream, int32_t *id);
Error aclrtLaunchHostFunc(void *stream, void (*function)(void *), void *argument);

Error aclrtCreateEventExWithFlag(void **out, uint32_t flags);
Error aclrtCreateEventWithFlag(void **out, uint32_t flags);
Error aclrtDestroyEvent(void *event);
Error aclrtRecordEvent(void *event, void *stream);
Error aclrtQueryEventStatus(void *event, int32_t *status);
Error aclrtSynchronizeEvent(void *event);
Error aclrtEventElapsedTime(float *milliseconds, void *start, void *end);

} // namespace sim
