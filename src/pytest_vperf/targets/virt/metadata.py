"""Parts of libvirt's XML that every kind of machine has, and what it is put together with."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The namespace of our labels in a domain's metadata.
NAMESPACE = "urn:pytest-vperf"


def metadata(labels: Mapping[str, str]) -> ElementTree.Element:
    """The element that says whose machine it is.

    Args:
        labels: of the run; the part of each name after the last dot becomes an attribute.
    """
    element = ElementTree.Element("metadata")
    run = ElementTree.SubElement(element, f"{{{NAMESPACE}}}run")
    for name, value in labels.items():
        run.set(name.rpartition(".")[2], value)
    return element


def labels_of(xml: str) -> Mapping[str, str]:
    """The labels in a machine's description; empty where it is nobody's of ours."""
    try:
        found = ElementTree.fromstring(xml).find(  # noqa: S314 - libvirt's own
            f"metadata/{{{NAMESPACE}}}run"
        )
    except ElementTree.ParseError:
        return {}
    return {} if found is None else dict(found.attrib)


def add(
    parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    """A new child element."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if text:
        element.text = text
    return element
