// Reports the warnings of kernels to Python's `warnings`, on the thread that waited and after its wait.
#pragma once
#include <Python.h>

#include <cstdint>

namespace tb::ops {

// 1: Python's filters made an exception of a warning, which is set. As the table tb_device_table has it.
int32_t report_warnings() noexcept;
// For operators: throws what Python raised.
void report_warnings_or_throw();
// report(warnings, dropped) of _late_warnings.py, for the life of the process.
void set_warning_reporter(PyObject *reporter);
// At exit, with Python's lock not held: reports what is left.
void report_last_warnings(void *) noexcept;

} // namespace tb::ops
