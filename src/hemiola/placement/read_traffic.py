"""read_traffic: a job's traffic from YAML: a list of requests, or a model from which they are derived."""

from __future__ import annotations

from hemiola.errors import PlacementError, TopologyError
from hemiola.placement.axes import Axes
from hemiola.placement.derive import derive
from hemiola.placement.model import read_model
from hemiola.placement.traffic import Traffic, load_document, read_requests
from hemiola.topology.parse.fields import Fields

MODEL_EXAMPLE = "{from: megatron, hidden: 4096, layers: 32, seq: 4096, micro_batch: 1, global_batch: 64}"

JOB_KEYS = ("traffic", "computation", "system", "axes", "model")
"""Of a document that holds more than traffic; only the first two are read here."""


def read_traffic(text: str, axes: Axes) -> Traffic:
    """The traffic in a YAML file, or in YAML given inline, checked against the axes."""
    return traffic_of(load_document(text), axes)


def traffic_of(document: object, axes: Axes) -> Traffic:
    """The traffic in a document: a list, a mapping with ``from``, or one of these under ``traffic``."""
    computation: object = None
    try:
        if isinstance(document, dict) and "traffic" in document:
            Fields.of("traffic", document, "traffic: [...]").only(*JOB_KEYS)
            computation, document = document.get("computation"), document["traffic"]
        if not isinstance(document, dict):
            return read_requests(document, computation).check(axes)
        fields = Fields.of("traffic", document, MODEL_EXAMPLE)
        source = fields.text("from", "megatron")
        return derive(source, read_model(fields), axes).check(axes)
    except TopologyError as error:
        raise PlacementError(str(error)) from None
