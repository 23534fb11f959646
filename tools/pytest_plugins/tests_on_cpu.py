"""A pytest plugin: if TB_DRIVER is not set, tests run on the cpu driver, whatever devices the machine has.

Most tests are about the cpu driver. Without this plugin an unset TB_DRIVER would select the first of cuda, npu and cpu
that has a device.
"""

import os

os.environ.setdefault("TB_DRIVER", "cpu")
