# SPDX-License-Identifier: Apache-2.0
"""A Python function of (b, h, q, k) as an expression of the mask language: called once, with symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stof.c_library import InvalidArgument

_HINT = "arithmetic with + - * // % abs(), comparisons, and & | ~ ^ of them"


class Symbol:
    """A number that is not known yet, or a truth. Its text stands in parentheses unless it is one word."""

    __hash__ = None  # type: ignore[assignment]  # == makes a symbol

    def __init__(self, text: str, is_truth: bool = False):
        self.text, self.is_truth = text, is_truth

    def __bool__(self) -> bool:
        raise InvalidArgument(2, f"a mask's function asks whether {self.text}; accepted: {_HINT}, without if, and, or, not, min, max")

    def __truediv__(self, other: Any) -> Symbol:
        raise InvalidArgument(2, f"a mask's function divides {self.text} by /; accepted: //")

    __rtruediv__ = __truediv__

    def __abs__(self) -> Symbol:
        return Symbol(f"abs({self.text})")

    def __neg__(self) -> Symbol:
        return Symbol(f"(0 - {self.text})")

    def __invert__(self) -> Symbol:
        if not self.is_truth:
            raise InvalidArgument(2, f"a mask's function inverts the number {self.text} by ~; accepted: truths, as comparisons make them")
        return Symbol(f"(!{self.text})", True)

    def __xor__(self, other: Any) -> Symbol:
        if not (self.is_truth and _is_truth(other)):
            raise InvalidArgument(2, f"a mask's function has {self.text} ^ {_text(other)}; accepted: truths, as comparisons make them")
        return Symbol(f"({self.text} != {_text(other)})", True)

    __rxor__ = __xor__

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), words: Any = None) -> Symbol:
        """torch.abs and others, which functions for FlexAttention may use."""
        name = function.__name__
        if name in _OF_TORCH and not words and all(isinstance(one, (Symbol, int)) for one in arguments):
            return _OF_TORCH[name](*arguments)
        raise InvalidArgument(2, f"a mask's function calls torch's {name}; accepted: {_HINT}, torch.{', torch.'.join(_OF_TORCH)}; "
                              "what tensors say becomes a mask by Mask.bits or Mask.document_ids")  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, int):  # True and False, too
        return str(int(value))
    raise InvalidArgument(2, f"a mask's function computes with {value!r}, of type {type(value).__name__}; accepted: integers. "
                          "What arrays say becomes a mask by Mask.bits or Mask.document_ids")  # fmt: skip


def _is_truth(value: Any) -> bool:
    return value.is_truth if isinstance(value, Symbol) else isinstance(value, bool)


def _binary(sign: str, kind: str) -> Callable[[Any, Any], Symbol]:
    """kind: of what comes out, a number, a truth, or a truth where both are."""

    def make(a: Any, b: Any) -> Symbol:
        return Symbol(f"({_text(a)} {sign} {_text(b)})", kind == "truth" or (kind == "joined" and _is_truth(a) and _is_truth(b)))

    return make


_OPERATORS = {"add": ("+", "number"), "sub": ("-", "number"), "mul": ("*", "number"), "floordiv": ("/", "number"),
              "mod": ("%", "number"), "and": ("&", "joined"), "or": ("|", "joined")}  # fmt: skip
for _name, (_sign, _kind) in _OPERATORS.items():
    _make = _binary(_sign, _kind)
    setattr(Symbol, f"__{_name}__", _make)
    setattr(Symbol, f"__r{_name}__", lambda a, b, make=_make: make(b, a))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(Symbol, f"__{_name}__", _binary(_sign, "truth"))

_OF_TORCH = {
    "abs": lambda a: abs(a),
    "minimum": lambda a, b: Symbol(f"min({_text(a)}, {_text(b)})"),
    "maximum": lambda a, b: Symbol(f"max({_text(a)}, {_text(b)})"),
    "logical_and": _binary("&", "joined"),
    "logical_or": _binary("|", "joined"),
    "logical_not": lambda a: ~a,
}


def text_of(function: Callable[[Any, Any, Any, Any], Any]) -> str:
    """"where(...)" for a function of the item, the head, and the positions of query and key, which FlexAttention calls a
    mask_mod. An InvalidArgument says what of it cannot be traced."""
    b, h, q, k = (Symbol(name) for name in "bhqk")
    try:
        made = function(b, h, q, k)
    except (TypeError, IndexError, AttributeError) as error:
        raise InvalidArgument(2, f"a mask's function cannot be followed ({error}); accepted: {_HINT}. What arrays say becomes a mask by "
                              "Mask.bits or Mask.document_ids") from error  # fmt: skip
    return f"where({_text(made)})"
