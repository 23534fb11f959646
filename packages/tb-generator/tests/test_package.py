"""The package as it is installed: the README's example, the time that an import takes, the size."""

import importlib.metadata
import io
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
import tb_generator

README = pathlib.Path(__file__).parents[1] / "README.md"


def test_the_readme_s_example_runs() -> None:
    [example] = re.findall(r"```python[^\n]*\n(.*?)```", README.read_text(), re.DOTALL)
    assert sum(bool(line.strip()) for line in example.splitlines()) >= 10
    exec(compile(example, str(README), "exec"), {})


def test_an_import_takes_at_most_30_ms_and_not_numpy() -> None:
    program = (
        "import sys, time, tb_device\n"
        "start = time.perf_counter(); import tb_generator; print(time.perf_counter() - start)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", program], text=True)) for _ in range(5)]
    assert min(times) <= 0.03, times


def test_the_installed_files_make_a_wheel_of_at_most_600_kb() -> None:
    files = [file for file in importlib.metadata.files("tb-generator") or [] if file.suffix != ".pyc"]
    if not any(file.suffix == ".so" for file in files):
        pytest.fail("the package is not installed from a wheel")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in files:
            wheel.write(str(file.locate()), str(file))
    assert len(archive.getvalue()) <= 600_000, len(archive.getvalue())
    assert pathlib.Path(tb_generator.__file__).exists()
