"""Checks of callers' numbers before they become numbers of C, which would cut them off."""
from __future__ import annotations

import operator
from typing import Any

from warpgroup._core import ArgumentError


def check_counts(**numbers: tuple[Any, int]) -> None:
    """name=(value, most): TypeError where value is no int, ArgumentError outside of 0 to most."""
    for name, (value, most) in numbers.items():
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{name} must be an int, not {value!r}") from None
        if not 0 <= number <= most:
            raise ArgumentError(f"{name} is {value}; 0 to {most} is possible")
