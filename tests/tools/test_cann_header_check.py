"""Our prototypes for Ascend are compared with headers of CANN: here with small ones of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks.cann_header_check import main

RUNTIME = """\
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef int aclError;
typedef void *aclrtStream;
typedef enum { ACL_MEMCPY_HOST_TO_DEVICE = 1 } aclrtMemcpyKind;
typedef enum { ACL_FLOAT = 0, ACL_BF16 = 27 } aclDataType;
typedef struct aclrtUuid { char bytes[16]; } aclrtUuid;
extern "C" {
aclError aclrtFree(void *pointer);
// aclError aclrtFreeHost(void *pointer);
aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid *uuid);
aclError aclrtMemcpyAsync(void *dst, size_t room, const void *src, size_t size, aclrtMemcpyKind kind,
                          aclrtStream stream);
}
"""
OPERATORS = """\
#include "acl/acl_rt.h"
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclOpExecutor aclOpExecutor;
extern "C" {
int aclnnMulsGetWorkspaceSize(const aclTensor *self, const aclScalar *other, aclTensor *out, uint64_t *workspace,
                              aclOpExecutor **executor);
int aclnnMuls(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);
int aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keep, aclDataType type,
                                   aclTensor *out, uint64_t *workspace, aclOpExecutor **executor);
int aclnnReduceSum(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);
int aclnnCastGetWorkspaceSize(const aclTensor *self, aclDataType type, aclTensor *out, uint64_t *workspace,
                              aclOpExecutor **executor);
int aclnnCast(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);
}
"""


def write(folder: Path, old: str = "", new: str = "") -> str:
    """Writes the headers, with one text replaced; returns the folder."""
    assert not old or (RUNTIME + OPERATORS).count(old) == 1
    for name, text in (("acl/acl_rt.h", RUNTIME), ("aclnnop/aclnn_all.h", OPERATORS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace(old, new) if old else text)
    return str(folder)


def test_agreement_says_what_was_compared_and_names_what_was_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path)]) == 0
    [compared, absent, verdict] = capfd.readouterr().out.splitlines()
    assert "1 numbers, 1 structs, 3 functions of libascendcl, 2 element types and formats" in compared
    assert "3 functions of aclnn, 3 calls of them" in compared
    assert {"aclrtFreeHost", "ACL_SUCCESS", "aclnnExpGetWorkspaceSize"} <= set(absent.replace(",", "").split())
    assert "aclrtFree," not in absent
    assert verdict == "all of it is that of the headers"


DIFFERENCES = {
    "a parameter more": ("aclrtFree(void *pointer)", "aclrtFree(void *pointer, int how)", "our_aclrtFree"),
    "another width": ("GetUuid(int32_t device", "GetUuid(int64_t device", "our_aclrtDeviceGetUuid"),
    "another number": ("HOST_TO_DEVICE = 1", "HOST_TO_DEVICE = 2", "host_to_device"),
    "another size of a struct": ("bytes[16]", "bytes[32]", "our_Uuid_bytes"),
    "another element type": ("ACL_BF16 = 27", "ACL_BF16 = 28", "kBFloat16"),
    "an operator's parameters in another order": (
        "const aclTensor *self, const aclScalar *other,",
        "const aclScalar *self, const aclTensor *other,",
        "our_aclnnMulsGetWorkspaceSize_mul_out",
    ),
    "an operator's parameter of another kind": ("bool keep", "int64_t keep", "aclnnReduceSumGetWorkspaceSize_sum"),
    "an input that the header writes": (
        "CastGetWorkspaceSize(const aclTensor",
        "CastGetWorkspaceSize(aclTensor",
        "our_aclnnCastGetWorkspaceSize_by_hand",
    ),
    "the second phase": ("aclnnCast(void *workspace, ", "aclnnCast(", "our_aclnnCast,"),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_a_difference_is_named_and_fails(difference: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new, name = DIFFERENCES[difference]
    assert main([write(tmp_path, old, new)]) == 1
    said = capfd.readouterr()
    assert name in said.err
    assert "they differ" in said.out


def test_a_function_that_no_header_has_is_named_and_does_not_fail(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path, "int aclnnMulsGetWorkspaceSize", "int aclnnOtherGetWorkspaceSize")]) == 0
    said = capfd.readouterr().out
    assert "2 functions of aclnn, 2 calls of them" in said
    assert "aclnnMulsGetWorkspaceSize" in said.splitlines()[1]


def test_a_header_that_does_not_compile_fails(tmp_path: Path) -> None:
    assert main([write(tmp_path, "typedef int aclError;", "#error no")]) == 1


def test_nothing_to_compare_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "nothing was compared" in capfd.readouterr().out
