"""Which jobs of a trace count."""

from __future__ import annotations

import pytest

from shockwave.model.errors import InputError
from shockwave.traces.window import Window


def test_a_window_is_a_part_of_the_time_between_first_and_last_arrival() -> None:
    # From 100 to 200: the middle is 120 to 180.
    counted = Window(0.2, 0.8).counts([100, 119, 120, 150, 180, 181, 200])
    assert counted.tolist() == [False, False, True, True, True, False, False]
    assert Window(0.0, 1.0).counts([3, 1, 2]).all()
    assert Window(0.5, 0.6).counts([7, 7]).all()  # all at once: no part of the time is another
    assert Window(0.2, 0.8).counts([]).tolist() == []


def test_a_window_in_which_nobody_arrives_is_an_error() -> None:
    with pytest.raises(InputError, match="no job arrives in this part"):
        Window(0.4, 0.6).counts([0, 100])


@pytest.mark.parametrize(
    "text", ["", "0.2", "0.2;0.8", "0.2,0.5,0.8", "a,b", "0.8,0.2", "0.5,0.5", "-0.1,0.5",
             "0.5,1.1", "nan,1", "0,nan"]
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--window"):
        Window.parse(text)
