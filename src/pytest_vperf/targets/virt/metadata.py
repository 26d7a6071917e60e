"""Parts of libvirt's XML that every kind of machine has, and what it is put together with."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.base import CannotStart

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
        found = described(xml, "a machine").find(f"metadata/{{{NAMESPACE}}}run")
    except CannotStart:
        return {}
    return {} if found is None else dict(found.attrib)


def described(xml: str, target: str) -> ElementTree.Element:
    """What a daemon, perhaps on another machine, says of something.

    Args:
        xml: its text.
        target: of whom it speaks.

    Raises:
        CannotStart: it is no XML.
    """
    try:
        # Entities that grow without end are refused by expat itself (2.4.1 and later).
        return ElementTree.fromstring(xml)  # noqa: S314 - libvirt's own # nosec B314
    except (ElementTree.ParseError, ValueError) as error:  # also of a surrogate
        raise CannotStart(
            f"{target}: what libvirt says of it is no XML: {error}", target=target
        ) from None


def add(
    parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    """A new child element."""
    element = ElementTree.SubElement(parent, tag, attributes)
    if text:
        element.text = text
    return element
