# SPDX-License-Identifier: Apache-2.0
"""Charts inside pages: labels stay readable, and colours are those of the page's theme."""

import re

import numpy as np
import pytest

from holdfast.drawing import svg
from holdfast.drawing.palette import CONSTRAINTS, DARK, LIGHT, METHODS, page_colours


@pytest.mark.parametrize("limit", [0.5, 3.0, 5.0, 20.0, 90.0])
@pytest.mark.parametrize("mean", [0.4, 4.0, 5.5, 21.0, 75.0, 99.0])
def test_no_line_of_a_histogram_crosses_a_label(limit, mean):
    drawn = svg.histogram(np.linspace(0.0, 100.0, 50), limit, mean, "cost")
    lines = re.findall(r'<line class="(?:limit|mean)" x1="(\S+)" x2="\S+" y1="(\S+)"', drawn)
    texts = re.findall(
        r'<text class="(?:limit|mean)" x="(\S+)" y="(\S+)" text-anchor="(\w+)">([^<]+)', drawn
    )
    assert len(lines) == len(texts) == 2
    for x, y, anchor, text in texts:
        wide = 7.5 * len(text)
        left = float(x) - (wide if anchor == "end" else 0)
        assert 0 <= left and left + wide <= svg.WIDTH
        for at, top in lines:
            crossed = left <= float(at) <= left + wide and float(top) < float(y)
            assert not crossed, (text, "is crossed")


def test_near_limits_stand_in_the_legend_in_the_colours_of_their_curves():
    steps = np.arange(1.0, 4.0)
    drawn = svg.curves(steps, np.ones((3, 2)), {"heat": 9.0, "noise": 9.1}, "two", "cost")
    assert ">heat: limit 9<" in drawn and ">noise: limit 9.1<" in drawn
    curves = re.findall(r'<polyline class="line" style="(stroke:[^"]+)"', drawn)
    limits = re.findall(r'<line class="limit"[^>]* style="(stroke:[^"]+)"', drawn)
    assert len(set(curves)) == 2 and curves == limits


def test_a_curve_never_reaches_the_label_of_its_limit():
    drawn = svg.curves(np.arange(1.0, 4.0), np.array([[1.0], [50.0], [9.0]]), {"c": 9.0}, "", "")
    label = float(re.search(r'<text class="limit" x="\S+" y="(\S+)"', drawn)[1])
    points = re.search(r'points="([^"]+)"', drawn)[1].split()
    heights = [float(point.partition(",")[2]) for point in points]
    assert min(heights) > label and len(set(heights)) == 3


def test_dots_stand_on_the_side_of_the_limit_that_they_are_on():
    drawn = svg.scatter([(-0.2, 1.0, "a"), (0.1, -2.0, "b")], "", "excess", "return")
    limit = float(re.search(r'<line class="limit" x1="(\S+)"', drawn)[1])
    left, right = (float(x) for x in re.findall(r'<circle cx="(\S+)"', drawn))
    assert svg.LEFT <= left < limit < right <= svg.WIDTH


def test_both_themes_define_the_same_variables():
    light, *dark = (re.findall(r"--(\w+):", line) for line in page_colours().splitlines())
    assert dark == [light, light] and len(light) == len(set(light)) == len(LIGHT) + len(METHODS)
    assert LIGHT.keys() == DARK.keys() and len(set(METHODS)) == 16
    assert LIGHT["unsafe"] not in CONSTRAINTS, "a constraint must not look like a limit"
