"""The tests themselves reach no network: connections and look-ups are refused, and the hub is switched off."""

from __future__ import annotations

import os
import socket

import pytest


def test_connections_and_lookups_are_refused():
    with pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(RuntimeError, match=r"example\.org"):
        socket.getaddrinfo("example.org", 80)
    with socket.socket() as connection, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        connection.connect_ex(("192.0.2.1", 80))


def test_the_hub_is_switched_off():
    from huggingface_hub import constants

    assert os.environ["HF_HUB_OFFLINE"] == "1" and constants.HF_HUB_OFFLINE


def test_this_machine_can_still_talk_to_itself():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
