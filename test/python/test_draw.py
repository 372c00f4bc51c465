# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures show what the compiler says."""

import io

import attn
import pytest

pytest.importorskip("matplotlib")

CAUSAL = attn.Attention("bf16", 16, 16, 64, mask="#attn.causal", batch=2, queries=1000, keys=1000)


def texts(figure):
    axes = figure.axes
    return [[text.get_text() for text in ax.get_legend().get_texts()] for ax in axes]


def test_roofline():
    figure = attn.draw(CAUSAL, "roofline")
    (axes,) = figure.axes
    assert "h200" in axes.get_title()
    roof, _, point = axes.get_lines()
    # The point of attention is to the right of the ridge, and below the roof.
    (intensity,), (speed,) = point.get_data()
    (_, ridge, _), (_, peak, flat) = roof.get_data()
    assert peak == flat == pytest.approx(989, rel=0.01) and ridge == pytest.approx(206, rel=0.01)
    assert intensity > ridge and 0 < speed < peak
    assert texts(figure)[0][0].startswith("@attention: attn.attention, ")


def test_roofline_of_a_device_and_sizes():
    dynamic = attn.Attention("bf16", 16, 16, 64)
    short, long = (
        attn.draw(dynamic, target="sm_80", size=size).axes[0].get_lines()[2].get_xdata()[0] for size in (512, 4096)
    )
    assert long > 4 * short
    assert "a100" in attn.draw(dynamic, target="sm_80").axes[0].get_title()


def test_tiles():
    figure = attn.draw(CAUSAL, "tiles")
    (axes,) = figure.axes
    assert "#attn.causal, 1000 x 1000, tiles 128 x 128" in axes.get_title()
    # 8 rows and columns of tiles, and the diagonal is cut.
    assert axes.get_xlim() == (0, 8) and axes.get_ylim() == (8, 0)
    assert texts(figure)[0] == ["full: 28", "partial: 8", "empty: 28"]
    _, *patches = axes.patches
    assert sum(patch.get_width() for patch in patches) == 36
    with pytest.raises(attn.CompileError, match="must have static lengths"):
        attn.draw(attn.Attention("bf16", 16, 16, 64), "tiles")


def test_timeline():
    figure = attn.draw(CAUSAL, "timeline")
    steps, kernel = figure.axes
    assert steps.get_title().startswith("@attention: attn.attention: steps of ")
    lanes = [label.get_text() for label in steps.get_yticklabels()]
    assert lanes[0] == "tensor cores" and len(lanes) >= 2
    # Bars of the kernel follow one another and add up to the estimate.
    bars = kernel.patches
    for one, other in zip(bars, bars[1:]):
        assert one.get_x() + one.get_width() == pytest.approx(other.get_x())
    total = bars[-1].get_x() + bars[-1].get_width()
    assert kernel.get_title() == f"{total:.1f} us, estimated"
    plain = attn.draw(attn.Attention("bf16", 16, 16, 64, batch=2, queries=1024, keys=1024), "timeline")
    assert not any("mask" in text for text in texts(plain)[1])
    assert any("mask" in text for text in texts(figure)[1])


def test_timeline_of_the_host():
    steps, kernel = attn.draw(CAUSAL, "timeline", target="host").axes
    assert [label.get_text() for label in steps.get_yticklabels()] == ["core"]
    # A core does one thing after the other: the steps leave no gaps.
    bars = sorted(steps.patches, key=lambda bar: bar.get_x())
    for one, other in zip(bars, bars[1:]):
        assert one.get_x() + one.get_width() == pytest.approx(other.get_x())
    assert kernel.get_title().endswith(" us, estimated")


def test_timeline_of_gradients():
    passes = "attn-differentiate{function=attention arguments=0,1,2},symbol-privatize{exclude=attention_bwd},symbol-dce"
    figure = attn.draw(CAUSAL, "timeline", passes=passes)
    titles = [axes.get_title() for axes in figure.axes]
    # What moves memory has no steps, and one bar.
    moving = [title for title in titles if "preprocess" in title or "dq_convert" in title]
    kernels = [title.split(": ")[1].split(", ")[-1] for title in moving]
    assert kernels == ["preprocess", "dq_convert"], titles
    assert any(", dkdv: steps of " in title for title in titles), titles
    for axes in figure.axes:
        if ", preprocess: " in axes.get_title():
            assert len(axes.patches) == 1 and texts(figure)


def test_figures_can_be_saved():
    for kind in ("roofline", "tiles", "timeline"):
        file = io.BytesIO()
        attn.draw(CAUSAL, kind).savefig(file, format="svg")
        assert b"</svg>" in file.getvalue()


def test_bad_input():
    with pytest.raises(attn.AttnError, match="unknown kind 'pie'; draw one of roofline, tiles, timeline"):
        attn.draw(CAUSAL, "pie")
    with pytest.raises(attn.AttnError, match="no attention of the module has a model of its time"):
        attn.draw("module {}", "timeline", target="host")
    for kind, text in (("roofline", "no operation of the module has a roofline"), ("tiles", "has no attention")):
        with pytest.raises(attn.AttnError, match=text):
            attn.draw("module {}", kind)
    with pytest.raises(attn.CompileError):
        attn.draw("func.func @f(", "roofline")
    with pytest.raises(attn.CompileError, match="sm_10"):
        attn.draw(CAUSAL, target="sm_10")
