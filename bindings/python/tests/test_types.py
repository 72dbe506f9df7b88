# SPDX-License-Identifier: Apache-2.0
"""What a type checker sees of calls: wrong arguments, and what comes back."""
import sys
from pathlib import Path

import clattn
import pytest

CALLS = '''
import clattn
import numpy as np
from numpy.typing import NDArray

q: NDArray[np.float16] = np.zeros((1, 2, 3, 8), np.float16)
reveal_type(clattn.attention(q, q, q))
reveal_type(clattn.attention(q, q, q, return_lse=True))
o, lse = clattn.attention(q, q, q, return_lse=True, causal="br", kv_lengths=[3], blocks=clattn.blocks_window((3, 3), (2, 2)))
reveal_type(lse)
reveal_type(clattn.attention_backward(o, q, q, q, o, lse, gradients=["bias"]))
clattn.attention(1, 2, 3)  # error: call-overload
clattn.attention(q, q, [[1.0]])  # error: call-overload
clattn.attention(q, q, q, casual="br")  # error: call-overload
clattn.attention(q, q, q, causal=1.5)  # error: call-overload
clattn.attention(q, q, q, attn_mask=q)  # error: call-overload
clattn.attention_backward(q, q, q, q, q, q, page_table=q)  # error: call-overload
clattn.quantize(q, 8)  # error: arg-type
clattn.quantized_bytes("q8_0", "x")  # error: arg-type
clattn.atention(q, q, q)  # error: attr-defined
'''


def test_calls_have_types(tmp_path):
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    sys_path, here = str(Path(clattn.__file__).parents[1]), tmp_path / "mypy.ini"
    here.write_text(f"[mypy]\nstrict = true\nmypy_path = {sys_path}\n[mypy-torch.*,pyopencl.*,transformers.*,ml_dtypes.*]\n"
                    "ignore_missing_imports = true\nfollow_imports = skip\n[mypy-clattn.*]\nignore_errors = true\n")
    said, complained, _ = api.run(["--config-file", str(here), "--cache-dir", str(tmp_path / "cache"), "--python-executable",
                                   sys.executable, str(file)])
    assert not complained
    lines = [line for line in said.splitlines() if line.startswith(str(file))]
    errors = {int(line.split(":")[1]): line.rsplit("[", 1)[1].rstrip("]") for line in lines if ": error: " in line}
    wanted = {n: line.split("# error: ")[1] for n, line in enumerate(CALLS.splitlines(), 1) if "# error: " in line}
    assert errors == wanted, said
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    assert len(revealed) == 4 and all("Any" not in one.replace("tuple[Any, ...]", "") for one in revealed), revealed
    for text, words in zip(revealed, (["ndarray", "16"], ["tuple", "16", "32"], ["ndarray", "32"], ["tuple", "16", ", ..."])):
        assert all(word in text for word in words), revealed  # NumPy calls float16 so, or by its bits
