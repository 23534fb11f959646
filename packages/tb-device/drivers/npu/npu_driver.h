// Entry of the NPU driver: Ascend devices through libascendcl, which is opened at run time.
//
// The contract is tb_driver_open_v1's (tb/driver.h). Nothing of the vendor's is linked or needed to build. Opening
// loads the library and counts devices; the library is initialised, and a device set, at the first use. README.md says
// what the driver offers, by which functions of the library, and what was tested where.
//
// Options (tb_host.option):
//   library  the file of libascendcl; default: libascendcl.so, $ASCEND_HOME_PATH/lib64/libascendcl.so, libacl_rt.so, and
//            only where /dev/davinci_manager says that there is a device
#pragma once

#include "tb/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

tb_status tb_npu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);

#ifdef __cplusplus
}
#endif
