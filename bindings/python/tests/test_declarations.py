# SPDX-License-Identifier: Apache-2.0
"""What declare.py reads in the headers is what a C compiler sees there."""
import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import clattn
import pytest
from clattn import _declarations as declared
from clattn import errors
from clattn._library import load

INCLUDE = Path(__file__).parents[3] / "include"


def run_c(folder, body):
    source = folder / "probe.c"
    source.write_text("#define CL_TARGET_OPENCL_VERSION 120\n#include <clattn/clattn.h>\n#include <stdio.h>\n"
                      "#include <stddef.h>\nint main(void)\n{\n" + body + "}\n")
    subprocess.run(["cc", "-std=c11", "-I", INCLUDE, "-o", folder / "probe", source], check=True)
    return subprocess.run([folder / "probe"], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_structs_and_constants_agree_with_a_compiler(tmp_path):
    want, body = [], ""
    for struct in declared.STRUCTS:
        name = struct.__name__
        body += f'printf("%zu\\n", sizeof({name}));\n'
        want.append(ctypes.sizeof(struct))
        fields = [name for name, _ in struct._fields_ if name not in getattr(struct, "_anonymous_", ())]
        for union in getattr(struct, "_anonymous_", ()):
            fields += [name for name, _ in dict(struct._fields_)[union]._fields_]
        for field in fields:
            body += f'printf("%zu\\n%zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));\n'
            want += [getattr(struct, field).offset, getattr(struct, field).size]
    for name, value in vars(declared).items():
        if name.isupper() and isinstance(value, int):
            body += f'printf("%lld\\n", (long long)CLATTN_{name});\n'
            want.append(value)
    assert run_c(tmp_path, body) == list(map(str, want))


def test_nothing_is_left_out():
    # mpi.h is of libclattn_mpi, which the package has not.
    headers = [path for path in INCLUDE.glob("clattn/*.h") if path.name != "mpi.h"]
    text = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in headers), flags=re.S)
    structs = set(re.findall(r"typedef struct (\w+) \{", text))
    assert structs == {struct.__name__ for struct in declared.STRUCTS}
    assert set(re.findall(r"\b(clattn_\w+)\((?!\*)", text)) == set(declared.FUNCTIONS)
    enums = "".join(re.findall(r"enum \w*\s*\{([^}]*)\}", text))
    assert {name for name in re.findall(r"CLATTN_(\w+)", enums) if not hasattr(declared, name)} == set()
    for name in declared.FUNCTIONS:
        assert getattr(load().lib, name)


def test_each_status_has_an_exception():
    assert {"CLATTN_" + name for name in declared.STATUSES} == {"CLATTN_SUCCESS", *errors.BY_STATUS}


def test_an_installed_package_explains_the_text_forms():
    for word in ("causal=A", "blocks=RxC:N", "An append is", "parts=L o=L"):
        assert word in clattn.Plan.__doc__
    assert "separate=N,M" in clattn.Multihead.__doc__
    package = Path(clattn.__file__).parent
    named = {name for file in package.glob("*.py") for name in re.findall(r"clattn/\w+\.h\b", file.read_text())}
    assert named and all((package / "include" / name).exists() for name in named)


def test_the_module_says_its_version_and_finds_pytorch_by_name():
    code = "import clattn, sys; print(clattn.__version__, 'torch' in sys.modules, any('OpenCL' in line for line in open('/proc/self/maps')))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert told == [clattn.version(), "False", "False"]
    try:
        import torch  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="torch"):
            clattn.torch
    else:
        assert clattn.torch.patch
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        clattn.nonsense
