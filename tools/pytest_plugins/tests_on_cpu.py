"""A pytest plugin: without TB_DRIVER tests run on the cpu driver, whatever the machine has.

Most tests say what the cpu driver does, and unset TB_DRIVER means the first of cuda, npu and cpu that has a device.
"""

import os

os.environ.setdefault("TB_DRIVER", "cpu")
