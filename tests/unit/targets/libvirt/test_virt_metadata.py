"""Labels in the domain XML, by which a later run knows a machine's owner."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.libvirt.storage import add, labels_of, metadata

# What XML can hold (XML 1.0, 2.2): no control characters but these three, no surrogates.
texts = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r<>&\"'")
)


def described(labels: dict[str, str]) -> str:
    domain = ElementTree.Element("domain")
    add(domain, "name", "n")
    domain.append(metadata(labels))
    return ElementTree.tostring(domain, encoding="unicode")


@given(st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), texts))
def test_labels_survive_a_round_trip(labels: dict[str, str]) -> None:
    xml = described({f"pytest-vperf.{name}": value for name, value in labels.items()})
    assert labels_of(xml) == labels


@pytest.mark.parametrize(
    "xml",
    [
        "",
        "no XML",
        "<domain/>",
        "<domain><metadata/></domain>",
        "<domain><metadata><run run='x'/></metadata></domain>",
        "<domain><metadata><o:run xmlns:o='urn:other' run='x'/></metadata></domain>",
        "<domain><name>n</name>",
    ],
)
def test_machines_of_others_have_no_labels(xml: str) -> None:
    assert labels_of(xml) == {}


def test_labels_are_read_in_libvirts_own_notation(test_driver: object) -> None:
    """The real library writes the namespace in its own style."""
    handle = test_driver.handle  # type: ignore[attr-defined]
    domain = handle.createXML(
        "<domain type='test'><name>labelled</name>"
        + ElementTree.tostring(metadata({"pytest-vperf.run": "0a<b", "place": "m/0"}), "unicode")
        + "<memory>1024</memory><os><type>hvm</type></os></domain>"
    )
    try:
        assert labels_of(domain.XMLDesc()) == {"run": "0a<b", "place": "m/0"}
    finally:
        domain.destroy()
