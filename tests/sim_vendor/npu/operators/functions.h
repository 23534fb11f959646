// functions.h -- the functions about descriptions and executors; functions.inc lists them.
#pragma once

#include <cstddef>

#include "../src/acl.h"
#include "objects.h"

namespace sim {

class Executor;

Tensor *aclCreateTensor(const int64_t *dims, uint64_t rank, int32_t type, const int64_t *strides, int64_t offset,
                        int32_t format, const int64_t *storage, uint64_t storage_rank, void *data);
Scalar *aclCreateScalar(const void *value, int32_t type);
Ints *aclCreateIntArray(const int64_t *values, uint64_t count);
Floats *aclCreateFloatArray(const float *values, uint64_t count);
Bools *aclCreateBoolArray(const bool *values, uint64_t count);
Tensors *aclCreateTensorList(const Tensor *const *each, uint64_t count);
Scalars *aclCreateScalarList(const Scalar *const *each, uint64_t count);

Error aclDestroyTensor(const Tensor *tensor);
Error aclDestroyScalar(const Scalar *scalar);
Error aclDestroyIntArray(const Ints *array);
Error aclDestroyFloatArray(const Floats *array);
Error aclDestroyBoolArray(const Bools *array);
Error aclDestroyTensorList(const Tensors *list);
Error aclDestroyScalarList(const Scalars *list);

Error aclGetViewShape(const Tensor *tensor, int64_t **dims, uint64_t *count);
Error aclGetStorageShape(const Tensor *tensor, int64_t **dims, uint64_t *count);
Error aclGetViewStrides(const Tensor *tensor, int64_t **strides, uint64_t *count);
Error aclGetViewOffset(const Tensor *tensor, int64_t *offset);
Error aclGetFormat(const Tensor *tensor, int32_t *format);
Error aclGetDataType(const Tensor *tensor, int32_t *type);
Error aclGetRawTensorAddr(const Tensor *tensor, void **address);
Error aclSetRawTensorAddr(Tensor *tensor, void *address);

Error aclSetAclOpExecutorRepeatable(Executor *executor);
Error aclDestroyAclOpExecutor(Executor *executor);
Error aclSetInputTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address);
Error aclSetOutputTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address);
Error aclSetTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address);

} // namespace sim
