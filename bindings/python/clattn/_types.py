# SPDX-License-Identifier: Apache-2.0
"""What type checkers see of the arguments: arrays of any kind, and the options of attention."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal, NamedTuple, Optional, Protocol, Sequence, Tuple, TypedDict, Union


class _HostArray(Protocol):
    """NumPy's arrays, and what hands out NumPy's array interface."""

    @property
    def __array_interface__(self) -> Any: ...


class _DLPackArray(Protocol):
    """PyTorch's tensors on the CPU, and what has only DLPack."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...


class _DeviceArray(Protocol):
    """pyopencl's arrays."""

    @property
    def base_data(self) -> Any: ...

    @property
    def offset(self) -> Any: ...


Array = Union[_HostArray, _DLPackArray, _DeviceArray]
Floats = Union[Array, Sequence[float]]
Integers = Union[Array, Sequence[int]]
Diagonal = Union[None, bool, str, int]


class Blocks(NamedTuple):
    """Block lists, as clattn/problem.h describes them; blocks_window() and its neighbours make them."""

    offsets: Array
    """int32 (rows + 1), (heads, rows + 1) or (batch, heads, rows + 1), with 1 for heads or batches that share a list."""
    entries: Array
    """int32, with as many axes: the columns that each row lists, plus 2 ** 30 where no mask is looked at."""
    size: Tuple[int, int]
    """Queries and keys in a block."""


class Options(TypedDict, total=False):
    """The options of attention() and attention_backward(), which attention() describes."""

    causal: Diagonal
    diagonal: Diagonal
    window: Optional[Sequence[Optional[int]]]
    mask: Optional[Array]
    mask_keys: Optional[int]
    blocks: Optional[Blocks]
    topk_indices: Optional[Array]
    bias: Optional[Array]
    scale: Optional[float]
    softcap: Optional[float]
    alibi_slopes: Optional[Floats]
    alibi_symmetric: bool
    sinks: Optional[Floats]
    q_lengths: Optional[Integers]
    kv_lengths: Optional[Integers]
    q_starts: Optional[Integers]
    kv_starts: Optional[Integers]
    max_q: Optional[int]
    max_kv: Optional[int]
    dropout: float
    seed: int
    strict: bool
    score_mod: Optional[FunctionOrCallable]
    mask_mod: Optional[FunctionOrCallable]
    version: int


class ForwardOptions(Options, total=False):
    """Those of attention() alone."""

    invariant: bool
    precision: Optional[Literal["int8"]]
    page_table: Optional[Array]
    k_scales: Optional[Array]
    v_scales: Optional[Array]
    cache: Union[None, str, Tuple[Optional[str], Optional[str]]]
    check_tables: bool


if TYPE_CHECKING:
    from typing import TypeVar

    from .function import Function

    FunctionOrCallable = Union[Function, Callable[..., Any]]

    Kind = TypeVar("Kind", bound=Array)
