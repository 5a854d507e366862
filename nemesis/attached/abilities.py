"""What each host of others can do, found out by commands that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.clock import Anchor
from harness.cluster.hosts_file import ENDING
from harness.errors import AckedError
from harness.lab.hosts.lab import HostsLab
from harness.lab.model import Host
from nemesis.network.disciplines import ROUTES, added_by_owner, entries_of, interfaces, is_one
from nemesis.proof.prober import Prober
from nemesis.proof.reachability import Call, calls

_MOST_OFFSET_S = 5.0
_ANSWER_WITHIN_S = 3.0
# Rules are only checked: `--test` loads nothing.
_ASK = r"""say() { printf '%s=%s\n' "$1" "$2"; }
has() { command -v "$1" >/dev/null 2>&1; }
say iptables "$(iptables -V 2>&1 | head -n 1)"
rule='-s 192.0.2.1/32 -m comment --comment "acked" -j DROP'
printf '*filter\n:ACKED-test - [0:0]\n-A ACKED-test %s\nCOMMIT\n' "$rule" |
    iptables-restore -w 5 --noflush --test >/dev/null 2>&1; say restore $?
stop='-m time --datestart 2030-01-01T00:00:00 -j RETURN'
printf '*filter\n:ACKED-test - [0:0]\n-A ACKED-test %s\nCOMMIT\n' "$stop" |
    iptables-restore -w 5 --noflush --test 2>&1 | grep -q . || say clock "$(date -u -d @0 +%Y 2>/dev/null)"
rule='-s 192.0.2.1/32 -j CLASSIFY --set-class ac00:acd'
printf '*filter\n:ACKED-test - [0:0]\n-A ACKED-test %s\nCOMMIT\n' "$rule" |
    iptables-restore -w 5 --noflush --test >/dev/null 2>&1; say classify $?
say rules "$(iptables-save -t filter 2>/dev/null | grep -c '^-A')"
for one in iptables-legacy-save iptables-nft-save; do
    has $one && say $one "$($one -t filter 2>/dev/null | grep -c '^-A')"
done
for one in setsid ss systemd-run; do has $one && say $one yes; done
[ -d /run/systemd/system ] && say systemd yes
tc -j qdisc show >/dev/null 2>&1 && say disciplines "$(tc -j qdisc show | tr -d '\n')"
say routes "$({ ROUTES; } 2>/dev/null | tr '\n' ' ')"
for p in python3 /usr/libexec/platform-python python; do
    $p -c 'import sys; sys.exit(sys.version_info < (3, 6))' </dev/null >/dev/null 2>&1 || continue
    say python $p; break
done
say addresses "$(ip -4 -o addr show 2>/dev/null | sed 's/.* inet \([0-9.]*\).*/\1/' | tr '\n' ' ')"
say now "$(date +%s)"
""".replace("ROUTES", ROUTES)


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """One host."""

    host: str
    unfit: Mapping[str, str] = field(default_factory=dict)
    """By fault (`cut`, `one-way`, `pause`, `throttle`, `kill`, `restart`), why it is not possible."""
    problem: str = ""
    """Why nothing is known of it."""
    notes: tuple[str, ...] = ()
    """What else a person should know."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the host said."""


def abilities(lab: HostsLab, host: Host) -> Abilities:
    """Ask one host. Errors become its problem."""
    try:
        lab.reach(host)
        peers = [one.address for one in lab.topology.hosts if one.name != host.name]
        answer = lab.execute(host.name, ("sh", "-c", _ASK, "ask", *peers), timeout_s=30.0).stdout
        facts = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
        cut, pause = _why_no_cut(facts), _why_no_pause(lab, host, facts)
        throttle = _why_no_throttle(host, facts)
    except AckedError as error:
        return Abilities(host=host.name, problem=error.message)
    each = {"cut": cut, "one-way": cut, "pause": pause, "throttle": throttle}
    unfit = {name: why for name, why in each.items() if why}
    no_start = "no start command of it is given (`start`; containers have none)"
    end = pause or ("" if lab.may_start(host.name) else no_start)
    return Abilities(
        host=host.name,
        unfit=unfit | ({name: end for name in ENDING} if end else {}),
        notes=tuple(_notes(host, facts)),
        facts=facts,
    )


def unanswered(lab: HostsLab) -> list[Call]:
    """Calls from host to host that get no answer now, and with which cuts are proven: behind a firewall, say.

    A refusal is an answer. The lab must be up. Raises LabError.
    """
    asked = calls(lab.topology)
    prober = Prober(lab)
    try:
        return sorted(set(asked) - prober.probe(asked, within_s=_ANSWER_WITHIN_S).alive())
    finally:
        prober.close()


def _why_no_cut(facts: Mapping[str, str]) -> str:
    if facts.get("restore") != "0":
        return f"iptables-restore refuses a rule with a comment ({facts.get('iptables', 'no iptables')})"
    if "setsid" not in facts:
        return "there is no setsid (util-linux), so no rule would end by itself"
    if "python" not in facts:
        return "there is no Python 3.6 or newer, so no cut could be proven"
    return ""


def _why_no_pause(lab: HostsLab, host: Host, facts: Mapping[str, str]) -> str:
    if "setsid" not in facts:
        return "there is no setsid (util-linux), so no pause would end by itself"
    if "ss" not in facts:
        return "there is no ss (iproute2), so the process of the node cannot be found"
    try:
        pid = lab.pid(host.name)
    except AckedError as error:
        return error.message.rstrip(".")
    return "" if pid is not None else f"no process listens on port {host.ports[0]}; is it right in `ports`?"


def _why_no_throttle(host: Host, facts: Mapping[str, str]) -> str:
    """Whether the kernel has the disciplines, only the canary shows. Raises LabError."""
    if why := _why_no_cut(facts):
        return why
    if "disciplines" not in facts:
        return "there is no tc that writes JSON (iproute2), so no rate can be limited"
    if facts.get("classify") != "0":
        return "iptables-restore refuses the target CLASSIFY, so no rate can be limited"
    devices = interfaces(facts.get("routes", ""))
    if not is_one(devices):
        ways = ", ".join(devices) or "no interface"
        return f"it reaches the other hosts over {ways}, and a limit needs one interface"
    entries = entries_of(facts["disciplines"], host.name)
    if own := added_by_owner([one for one in entries if one.get("dev") == devices[0]]):
        what = f"{own.get('kind')} {own.get('handle')}"
        return f"{devices[0]} has a queueing discipline of its own ({what}), which a limit would replace"
    return ""


def _notes(host: Host, facts: Mapping[str, str]) -> list[str]:
    notes = []
    if host.address not in facts.get("addresses", "").split():
        notes.append(f"{host.address} is no address of it ({facts.get('addresses', '').strip()})")
    both = [facts.get(f"iptables-{name}-save", "0") for name in ("legacy", "nft")]
    if "0" not in both:
        notes.append(f"it has rules of iptables-legacy ({both[0]}) and of iptables-nft ({both[1]})")
    if facts.get("clock") != "1970":
        notes.append("its kernel ends no rules (iptables' match `time`); its watchdogs alone do")
    offset_s = float(facts.get("now", "0")) - Anchor.take().wall_ns / 1e9
    if abs(offset_s) > _MOST_OFFSET_S:
        notes.append(f"its clock differs by {offset_s:+.0f} s")
    return notes
