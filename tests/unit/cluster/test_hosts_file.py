"""Hosts files: what they say, and one sentence for whatever is wrong in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from harness.cluster.hosts_file import Window, in_azs_of, read_hosts_file
from harness.errors import UnfitError, UsageError
from harness.lab.model import Host, Topology

GOOD = """
[ssh]
user = "ops"
become = "sudo -n"

[kafka]
bootstrap = "kafka1:9092"
cluster-id = "4L6g3nShT-eMCtK--X86sw"
client-config = "client.properties"

[limits]
allow = ["cut"]
hosts-at-once = 2
max-seconds = 30

[[host]]
ssh = "kafka1"
address = "10.0.1.11"
az = "frankfurt"
id = 1001
ports = { kafka = [9092, 9093], controller = [9094] }

[[host]]
ssh = "ops@kafka2"
address = "10.0.2.11"
az = "paris"
id = 7
ports = { controller = [9094] }
"""


def _read(folder: Path, text: str) -> object:
    file = folder / "hosts.toml"
    file.write_text(text)
    return read_hosts_file(file)


def test_a_file_says_hosts_ways_and_limits(tmp_path: Path) -> None:
    """Hosts have the names of all histories, AZs those of their owner."""
    (tmp_path / "hosts.toml").write_text(GOOD)
    file = read_hosts_file(tmp_path / "hosts.toml")
    broker, controller = file.topology.hosts
    assert (broker.name, broker.role, broker.az, broker.ports) == (
        "broker1001",
        "broker",
        "az1",
        (9092, 9093, 9094),
    )
    assert (controller.name, file.topology.az_name(controller.az)) == ("controller7", "paris")
    argv = file.targets["broker1001"].argv("true")
    assert argv[-3:] == ["--", "kafka1", "true"] and "StrictHostKeyChecking=yes" in argv
    assert (file.allow, file.hosts_at_once, file.max_s) == (("cut",), 2, 30)
    assert file.client_config == tmp_path / "client.properties"


@pytest.mark.parametrize(
    ("window", "zone", "at", "left_h"),
    [
        ("22:00-05:00", "UTC", "2026-03-10T23:00", 6),
        ("22:00-05:00", "UTC", "2026-03-10T04:00", 1),
        ("22:00-05:00", "UTC", "2026-03-10T05:00", 0),
        ("22:00-05:00", "UTC", "2026-03-10T12:00", 0),
        ("09:00-17:00", "UTC", "2026-03-10T09:00", 8),
        ("09:00-17:00", "Europe/Berlin", "2026-03-10T15:30", 0.5),
        ("01:00-04:00", "Europe/Berlin", "2026-03-29T00:30", 1.5),
    ],
)
def test_the_window_of_the_day(window: str, zone: str, at: str, left_h: float) -> None:
    """It may go past midnight, and an hour of it may be missing; times are UTC."""
    wall_ns = round(datetime.fromisoformat(f"{at}+00:00").timestamp() * 1e9)
    assert Window.parse(window, zone).left_s(wall_ns) == left_h * 3600


def test_a_window_and_a_start_command(tmp_path: Path) -> None:
    """Outside of the window one sentence refuses; nodes without a command are never ended."""
    text = GOOD.replace("[[host]]", 'window = "22:00-05:00"\n[[host]]', 1)
    text = text.replace("id = 1001", 'id = 1001\nstart = "systemctl start kafka"')
    (tmp_path / "hosts.toml").write_text(text)
    file = read_hosts_file(tmp_path / "hosts.toml")
    assert file.starts == {"broker1001": "systemctl start kafka"}
    assert file.window_left_s(4 * 3600 * 10**9) == 3600
    with pytest.raises(UnfitError, match=r"outside of limits.window .*22:00-05:00 UTC.*nothing was broken"):
        file.window_left_s(12 * 3600 * 10**9)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max-seconds = 30", 'window = "22-5"', "HH:MM-HH:MM"),
        ("max-seconds = 30", 'window = "25:00-05:00"', "limits.window"),
        ("max-seconds = 30", 'window = "22:00-05:00"\ntime-zone = "Mars"', "no time zone"),
        ("id = 7", 'id = 7\nstart = "a\\nb"', "a command of one line"),
        ('allow = ["cut"]', 'allow = ["power_cut"]', "not possible on hosts"),
        ('allow = ["cut"]', "allow = 3", "allow"),
        ("max-seconds = 30", "max-seconds = 30000", "max-seconds"),
        ("hosts-at-once", "hosts_at_once", "unknown field"),
        ('"10.0.1.11"', '"kafka1"', "write the IPv4 address"),
        ('"10.0.1.11"', '"127.0.0.1"', "write the IPv4 address"),
        ('"10.0.1.11"', '"fe80::1"', "write the IPv4 address"),
        ('"10.0.2.11"', '"10.0.1.11"', "there twice"),
        ('"kafka1"\n', '"-oProxyCommand=date"\n', "write what follows `ssh`"),
        ('"kafka1"\n', '"kafka1; reboot"\n', "write what follows `ssh`"),
        ("{ controller = [9094] }", "{ }", "is no service"),
        ("{ controller = [9094] }", "{ redis = [6379] }", "is no service"),
        ("{ controller = [9094] }", "{ controller = [0] }", "ports"),
        ('az = "paris"', 'az = ""', "letters, digits"),
        ("id = 7", "id = -1", "id"),
        ('"sudo -n"', '"sudo \'-n"', "ssh.become"),
        ('"ops"', '"-l"', "no name of a user"),
        ('bootstrap = "kafka1:9092"', 'bootstrap = " "', "bootstrap is empty"),
        ("[kafka]", "[kafka", "hosts.toml"),
        (GOOD, "", "name hosts, each as"),
        ("[ssh]", '[compose]\nproject = "shop"\n[ssh]', "name hosts, each as"),
        (GOOD, '[compose]\nproject = "shop"\n[limits]\nallow = ["kill"]', "use cut, one-way, pause"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, old: str, new: str, words: str) -> None:
    """With the place and the remedy."""
    assert old in GOOD
    with pytest.raises(UsageError) as error:
        _read(tmp_path, GOOD.replace(old, new))
    assert words in error.value.message and "hosts.toml" in error.value.message
    assert len(error.value.message) <= 300


def test_a_file_must_name_every_broker(tmp_path: Path) -> None:
    """The AZs are those of the file, whatever racks the brokers state."""
    (tmp_path / "hosts.toml").write_text(GOOD)
    file = read_hosts_file(tmp_path / "hosts.toml")
    own = Host(name="here", role="client", az="here", address="", node_id=0)
    known = Host(name="broker1001", role="broker", az="az7", address="10.0.1.11", node_id=1001)
    stated = Topology((known, own), "", {"az7": "no rack", "here": "here"})
    ours = in_azs_of(file, stated)
    assert [host.az for host in ours.hosts] == ["az1", "here"]
    assert ours.az_names == {"az1": "frankfurt", "az2": "paris", "here": "here"}
    other = Host(name="broker2", role="broker", az="az7", address="10.0.9.9", node_id=2)
    with pytest.raises(UnfitError, match="names no host with kafka for broker2"):
        in_azs_of(file, Topology((known, other, own), "", stated.az_names))


@pytest.mark.parametrize("name", ["10.0.1.11", "localhost"])
def test_ids_are_those_that_the_cluster_gives_to_the_addresses(tmp_path: Path, name: str) -> None:
    """Two ids that were confused would aim a fault at a node whose partitions nobody looked after."""
    address = "127.0.0.1" if name == "localhost" else name
    brokers = GOOD.replace("ports = { controller = [9094] }", "ports = { kafka = [9092] }")
    (tmp_path / "hosts.toml").write_text(brokers)
    file = read_hosts_file(tmp_path / "hosts.toml")
    first, *others = file.topology.hosts
    file = replace(file, topology=replace(file.topology, hosts=(replace(first, address=address), *others)))
    port = first.services["kafka"][0]

    def stated(node_id: int, port: int) -> Topology:
        host = Host(
            name=f"broker{node_id}",
            role="broker",
            az="az7",
            address=name,
            node_id=node_id,
            services={"kafka": (port,)},
        )
        return Topology((host,), "", {"az7": "no rack"})

    (other,) = others
    with pytest.raises(UnfitError, match=f"the id {first.node_id}, .* has the id {other.node_id}; correct"):
        in_azs_of(file, stated(other.node_id, port))
    in_azs_of(file, stated(first.node_id, port))
    in_azs_of(file, stated(other.node_id, port + 20_000))  # a port that leads elsewhere
