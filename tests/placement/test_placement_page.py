"""The page on placement: what it shows can be read, and it names every file and way of training."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hemiola.placement.axes import parse_axes
from hemiola.placement.export import FILES
from hemiola.placement.model import MODEL_KEYS
from hemiola.placement.read_traffic import traffic_of
from hemiola.placement.traffic import COLLECTIVES

PAGE = (Path(__file__).parents[2] / "docs" / "placement.md").read_text("utf-8")


def test_the_list_of_requests_can_be_read() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    first, second = traffic_of(yaml.safe_load(block), parse_axes("data=4,pipeline=2")).requests
    assert (first.overlaps, second.name) == ("backward", "to the next stage")


def test_the_model_can_be_read() -> None:
    (model,) = re.findall(r"`(traffic: \{from.*?\})`", PAGE)
    assert traffic_of(yaml.safe_load(model), parse_axes("data=8,model=4")).requests


def test_nothing_is_left_out() -> None:
    for name in (*FILES, *COLLECTIVES, "megatron", "moe", "fsdp2", "ddp"):
        assert f"`{name}`" in PAGE
    for key in MODEL_KEYS:
        assert f"`{key}`" in PAGE or f"{key}:" in PAGE
