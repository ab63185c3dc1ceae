# SPDX-License-Identifier: Apache-2.0
"""A Python function of (b, h, q, k) as an expression of the mask language: called once, with symbols."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from stof.c_library import InvalidArgument

_HINT = "arithmetic with + - * // % ** << >> abs() .abs() .clamp(), comparisons, and & | ~ ^ of them"  # mask_test.py tries each
_ARRAYS = "What arrays say becomes a mask by Mask.bits or Mask.document_ids"
_MOST_ELEMENTS = 1024  # of a tensor with a number for each item or head


class Symbol:
    """A number that is not known yet, or a truth: `text`, in parentheses unless it is one word, and an integer besides. That
    cancels where two are compared or subtracted, so that a condition on q - k has one text wherever positions begin."""

    __hash__ = None  # type: ignore[assignment]  # == makes a symbol
    device = "cpu"  # as functions for tensors ask for it

    def __init__(self, text: str, is_truth: bool = False, plus: int = 0):
        self.text, self.is_truth, self.plus = text, is_truth, plus

    @property
    def whole(self) -> str:
        return _with(self.text, self.plus)

    def __bool__(self) -> bool:
        raise InvalidArgument(2, f"a mask's function asks whether {self.whole}; accepted: {_HINT}, without if, and, or, not, min, max")

    def __truediv__(self, other: Any) -> Symbol:
        raise InvalidArgument(2, f"a mask's function divides {self.whole} by /; accepted: //")

    __rtruediv__ = __truediv__

    def __add__(self, other: Any) -> Symbol:
        other = _known(other)
        if isinstance(other, int):
            return Symbol(self.text, plus=self.plus + other)
        return Symbol(f"({self.text} + {other.text})", plus=self.plus + other.plus)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        other = _known(other)
        if isinstance(other, int):
            return Symbol(self.text, plus=self.plus - other)
        return Symbol(f"({self.text} - {other.text})", plus=self.plus - other.plus)

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(f"({_known(other) - self.plus} - {self.text})")

    def __floordiv__(self, other: Any) -> Symbol:
        other = _known(other)
        if isinstance(other, int) and other > 0:  # (x + c) // d is (x + c % d) // d + c // d
            return Symbol(f"({_with(self.text, self.plus % other)} / {other})", plus=self.plus // other)
        return Symbol(f"({self.whole} / {_text(other)})")

    def __mod__(self, other: Any) -> Symbol:
        other = _known(other)
        plus = self.plus % other if isinstance(other, int) and other > 0 else self.plus
        return Symbol(f"({_with(self.text, plus)} % {_text(other)})")

    def __pow__(self, exponent: Any) -> Symbol:
        return Symbol("(" + " * ".join([self.whole] * _within(exponent, 1, 8, f"raises {self.whole} to the power of")) + ")")

    def __lshift__(self, places: Any) -> Symbol:
        return self * (1 << _within(places, 0, 62, f"shifts {self.whole} by"))

    def __rshift__(self, places: Any) -> Symbol:
        return self // (1 << _within(places, 0, 62, f"shifts {self.whole} by"))

    def __abs__(self) -> Symbol:
        return Symbol(f"abs({self.whole})")

    def __neg__(self) -> Symbol:
        return Symbol(f"(0 - {self.text})", plus=-self.plus)

    def __pos__(self) -> Symbol:
        return self

    def __invert__(self) -> Symbol:
        if not self.is_truth:
            raise InvalidArgument(2, f"a mask's function inverts the number {self.whole} by ~; accepted: truths, as comparisons make them")
        return Symbol(f"(!{self.text})", True)

    def __xor__(self, other: Any) -> Symbol:
        if not (self.is_truth and _is_truth(other)):
            raise InvalidArgument(2, f"a mask's function has {self.whole} ^ {_text(other)}; accepted: truths, as comparisons make them")
        return Symbol(f"({self.text} != {_text(other)})", True)

    __rxor__ = __xor__

    def abs(self) -> Symbol:
        return abs(self)

    def clamp(self, min: Any = None, max: Any = None) -> Symbol:  # noqa: A002: torch's names
        """As that of a tensor."""
        above = self if min is None else greatest(self, min)
        return above if max is None else least(above, max)

    def to(self, *of: Any, **given: Any) -> Any:
        """To another device, or to truths or integers, of which there is one type."""
        for kind in map(str, (*of, *given.values())):
            if kind == "torch.bool":
                return _truth(self)
            if kind.startswith(("torch.int", "torch.uint")):
                return Symbol(self.text, plus=self.plus)
            if kind.startswith("torch."):
                raise InvalidArgument(2, f"a mask's function makes {self.whole} {kind}; accepted: torch.bool, integers")
        return self

    def new_ones(self, *_: Any, **given: Any) -> Symbol:
        """As functions that join others begin, with a truth for all pairs."""
        return Symbol("1", True)

    def new_zeros(self, *_: Any, **given: Any) -> Symbol:
        return Symbol("0", True)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), words: Any = None) -> Any:
        """torch.abs and others, which functions for FlexAttention may use, and operators with a tensor in front."""
        name, words = function.__name__.strip("_"), words or {}
        if name == "getitem" and isinstance(arguments[1], Symbol):
            return _element(*arguments)
        if name == "div" and words.pop("rounding_mode", None) == "floor":
            name = "floor_divide"
        accepted = _OF_TORCH.get(name)
        if accepted is None or (words and name != "clamp"):
            raise InvalidArgument(2, f"a mask's function calls torch's {function.__name__}; accepted: {_HINT}, torch.{', torch.'.join(_OF_TORCH)}, "
                                  "torch.div(rounding_mode='floor'); "
                                  "what tensors say becomes a mask by Mask.bits or Mask.document_ids")  # fmt: skip
        return accepted(*map(_known, arguments), **words)


def _with(text: str, plus: int) -> str:
    if plus == 0:
        return text
    return f"({text} - {-plus})" if -(2**63) < plus < 0 else f"({text} + {plus})"  # 2^63 has no text, -2^63 has


def _known(value: Any) -> Any:
    """A Symbol, None, a bool, or the int that a number of NumPy or a tensor of one integer is."""
    if value is None or isinstance(value, (Symbol, int)):
        return value
    try:
        whole = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(2, f"a mask's function computes with {value!r}, of type {type(value).__name__}; accepted: integers. {_ARRAYS}") from None
    return bool(whole) if str(getattr(value, "dtype", "")) in ("bool", "torch.bool") else whole


def _text(value: Any) -> str:
    value = _known(value)
    return value.whole if isinstance(value, Symbol) else str(int(value))  # True and False, too


def _within(value: Any, least: int, most: int, does: str) -> int:
    number = _known(value)
    if not (isinstance(number, int) and least <= number <= most):
        raise InvalidArgument(2, f"a mask's function {does} {_text(number)}; accepted: {least} to {most}")
    return number


def _is_truth(value: Any) -> bool:
    return value.is_truth if isinstance(value, Symbol) else isinstance(_known(value), bool)


def _truth(value: Any) -> Any:
    return value if _is_truth(value) else value != 0


def least(a: Any, b: Any) -> Symbol:
    return Symbol(f"min({_text(a)}, {_text(b)})")


def greatest(a: Any, b: Any) -> Symbol:
    return Symbol(f"max({_text(a)}, {_text(b)})")


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """torch.where."""
    condition = _truth(condition)
    if _is_truth(a) and _is_truth(b):
        return (condition & a) | (negated(condition) & b)
    return condition * a + negated(condition) * b


def negated(value: Any) -> Any:
    return ~value if isinstance(value, Symbol) and value.is_truth else value == 0


def _element(tensor: Any, of: Symbol) -> Any:
    """Of a tensor with a number for each item or head. What is beyond its end divides by zero, which is an error when an item is there."""
    if of.whole not in ("b", "h") or len(tensor.shape) != 1 or not 1 <= tensor.shape[0] <= _MOST_ELEMENTS or tensor.is_floating_point():
        raise InvalidArgument(2, f"a mask's function asks for element {of.whole} of a tensor {list(tensor.shape)} of {tensor.dtype}; accepted: "
                              f"element b or h of 1 to {_MOST_ELEMENTS} integers. {_ARRAYS}")  # fmt: skip
    values = tensor.tolist()
    if all(value == values[0] for value in values):
        return Symbol(str(int(values[0])), True) if isinstance(values[0], bool) else values[0]
    others = [f"{int(value) - int(values[0])} * ({of.text} == {i})" for i, value in enumerate(values) if value != values[0]]
    number = Symbol(f"({' + '.join(others)} + 0 / ({of.text} < {len(values)}))", plus=int(values[0]))
    return number != 0 if isinstance(values[0], bool) else number


def _compared(sign: str) -> Callable[[Any, Any], Symbol]:
    def make(a: Symbol, b: Any) -> Symbol:
        b = _known(b)
        plus = (int(b) if isinstance(b, int) else b.plus) - a.plus
        if not -(2**63) <= plus < 2**63:  # together they are past 64 bits
            return Symbol(f"({a.whole} {sign} {_text(b)})", True)
        return Symbol(f"({a.text} {sign} {plus if isinstance(b, int) else _with(b.text, plus)})", True)

    return make


def _joined(sign: str, unchanged: str) -> Callable[[Any, Any], Any]:
    """unchanged: the truth that changes nothing."""

    def make(a: Any, b: Any) -> Any:
        truths = _is_truth(a) and _is_truth(b)
        if truths and unchanged in (_text(a), _text(b)):
            return b if _text(a) == unchanged else a
        return Symbol(f"({_text(a)} {sign} {_text(b)})", truths)

    return make


def _plain(sign: str) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: Symbol(f"({_text(a)} {sign} {_text(b)})")


for _name, _make in {"mul": _plain("*"), "and": _joined("&", "1"), "or": _joined("|", "0")}.items():
    setattr(Symbol, f"__{_name}__", _make)
    setattr(Symbol, f"__r{_name}__", lambda a, b, make=_make: make(b, a))
for _name, _sign in {"floordiv": "/", "mod": "%"}.items():
    setattr(Symbol, f"__r{_name}__", lambda a, b, make=_plain(_sign): make(b, a))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(Symbol, f"__{_name}__", _compared(_sign))

_OF_TORCH: dict[str, Callable[..., Any]] = {
    "abs": abs, "minimum": least, "maximum": greatest, "clamp": Symbol.clamp, "where": _chosen,
    "logical_and": lambda a, b: _truth(a) & _truth(b), "logical_or": lambda a, b: _truth(a) | _truth(b),
    "logical_xor": lambda a, b: _truth(a) ^ _truth(b), "logical_not": negated,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_not": operator.invert,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "neg": operator.neg, "pow": operator.pow, "square": lambda a: a * a,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def text_of(function: Callable[[Any, Any, Any, Any], Any]) -> str:
    """"where(...)" for a function of the item, the head, and the positions of query and key, which FlexAttention calls a
    mask_mod. An InvalidArgument says what of it cannot be traced."""
    b, h, q, k = (Symbol(name) for name in "bhqk")
    try:
        made = function(b, h, q, k)
        return f"where({_text(made)})"
    except (TypeError, IndexError, AttributeError) as error:
        raise InvalidArgument(2, f"a mask's function cannot be followed ({error}); accepted: {_HINT}. {_ARRAYS}") from error
