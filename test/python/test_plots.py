# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published plots show all that they draw: series are inside the axes, no legend is above data, nothing is cut off."""

import pytest
from conftest import ROOT

pytest.importorskip("matplotlib")

import calibrate
import report

RESULTS = ROOT / "benchmarks" / "results"
GROUPS = report.group_cases(report.read_rows(RESULTS))
# Half a pixel: bounds and points are rounded differently.
TOLERANCE = 0.5


def get_faults(figure):
    """Everything that a reader of the figure cannot see."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    faults = []
    legends = list(figure.legends)
    for axis in figure.axes:
        legends += [axis.get_legend()] if axis.get_legend() else []
        frame = axis.get_window_extent(renderer).padded(TOLERANCE)
        for label, points in get_points(axis):
            outside = [tuple(point) for point in points if not frame.contains(*point)]
            if outside:
                faults.append(f"{axis.get_title()}: {len(outside)} points of {label} are outside of the axes")
    for legend in legends:
        box = legend.get_window_extent(renderer)
        if not figure.bbox.padded(TOLERANCE).contains(*box.min) or not figure.bbox.padded(TOLERANCE).contains(*box.max):
            faults.append("a legend is cut off")
        for axis in figure.axes:
            for label, points in get_points(axis):
                if any(box.contains(*point) for point in points):
                    faults.append(f"{axis.get_title()}: a legend is above points of {label}")
            for line in axis.get_lines():
                if line.get_transform().transform_path(line.get_path()).intersects_bbox(box, filled=False):
                    faults.append(f"{axis.get_title()}: a legend is above the line of {line.get_label()}")
    for axis in figure.axes:
        box = axis.get_tightbbox(renderer)
        if not figure.bbox.padded(TOLERANCE).contains(*box.min) or not figure.bbox.padded(TOLERANCE).contains(*box.max):
            faults.append(f"{axis.get_title()}: the title or a label is cut off")
    return faults


def get_points(axis):
    """(label, points in pixels) of lines and clouds of points."""
    for line in axis.get_lines():
        yield line.get_label(), line.get_transform().transform(line.get_xydata())
    for cloud in axis.collections:
        yield cloud.get_label(), cloud.get_offset_transform().transform(cloud.get_offsets())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[1])
def test_groups(group):
    figure = report.draw(GROUPS[group])
    if figure is None:
        pytest.skip("a table without a plot")
    lines = {line.get_label() for axis in figure.axes for line in axis.get_lines()}
    assert "Attn" in lines and len(lines) > 1
    assert get_faults(figure) == []


def test_dropout():
    figure = report.draw_dropout(report.read_dropout_rows(RESULTS))
    assert all(axis.get_lines() for axis in figure.axes)
    assert get_faults(figure) == []


def test_series_keep_their_colors():
    """Panels have different peers, and there is one legend."""
    figures = [report.draw_dropout(report.read_dropout_rows(RESULTS)), *map(report.draw, GROUPS.values())]
    for figure in figures:
        colors = {}
        for line in (line for axis in figure.axes for line in axis.get_lines()) if figure else ():
            assert colors.setdefault(line.get_label(), line.get_color()) == line.get_color()
        assert len(set(colors.values())) == len(colors)


def test_calibration():
    def point(i, ms):
        return calibrate.Point("kernels", "", 64, ms, "", seconds=1e-3 * ms * (1 + 0.02 * i))

    groups = {f"kernels {i}": [point(i, 0.1 * 2**j) for j in range(14)] for i in range(22)}
    figure = calibrate.draw(groups)
    assert len(figure.axes[0].collections) == len(figure.legends[0].get_texts()) == len(groups)
    assert get_faults(figure) == []


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda figure: figure.axes[0].set_ylim(0, 10), "are outside of the axes"),
        (lambda figure: figure.axes[0].legend(loc="center", fontsize=60), "a legend is above"),
        (lambda figure: figure.axes[0].set_title("too long for the figure" * 15), "the title or a label is cut off"),
    ],
)
def test_faults_are_found(change, fault):
    figure = report.draw(GROUPS["NVIDIA H200", "Forward"])
    change(figure)
    assert fault in "\n".join(get_faults(figure))


def test_pages_are_current(tmp_path):
    """README.md and docs/performance.md say what benchmarks/report.py writes of the rows."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "results").symlink_to(RESULTS)
    for name in ("README.md", "docs/performance.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert report.main(["--root", str(tmp_path)]) == 0
    for name in ("README.md", "docs/performance.md"):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), f"{name} is stale: run benchmarks/report.py"
    written = {image.name for image in (tmp_path / "docs" / "images").iterdir()}
    assert written == {image.name for image in (ROOT / "docs" / "images").glob("performance-*.svg")}
