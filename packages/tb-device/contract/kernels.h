// The kernels that the MODULE cases launch. A vendor compiles them for the device and gives the image with --image; the
// images of the cpu and sim drivers come with tb_device (contract/kernels_host.c, as contract/kernels_host.so).
//
//   tb_contract_fill  (uint32_t *dst, uint32_t value, uint32_t count)     dst[i] = value        i = global thread index
//   tb_contract_add   (float *dst, const float *a, const float *b, uint32_t count)   dst[i] = a[i] + b[i]
//   tb_contract_index (uint32_t *dst)                     dst[global thread index] = block index x
//   tb_contract_fail  ()      fails with TB_INTERNAL and a text; optional, for devices that can report a failing kernel
// and a variable  uint32_t tb_contract_answer = 42. Arguments are passed by value in this order; the launch has one
// dimension. Threads past `count` do nothing.
#pragma once
