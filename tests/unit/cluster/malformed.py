"""Malformed files, and the sentence with which each is refused: no cluster starts for any of them."""

from __future__ import annotations

AZ = '[[az]]\nname = "a"\n'

CLUSTER_FILES: tuple[tuple[str | bytes, str], ...] = (
    ("", "FILE: az is missing; add an [[az]] table for each AZ."),
    ('kafka = "2.7.1"\n', "FILE: az is missing; add an [[az]] table for each AZ."),
    ("[az]\nname = 'a'\n", "FILE:1: [az] is a single table; write [[az]], with two brackets."),
    ("az = []\n", "FILE:1: az = []: write an [[az]] table for each AZ."),
    (AZ * 1 + AZ, "FILE:4: name = 'a': two AZs have this name; give each one of its own."),
    ("[[az]]\n", 'FILE:1: name is missing; add name = "...".'),
    (f"{AZ}[[az]]\nbrokers = 1\n", 'FILE:3: name is missing; add name = "...".'),
    ("[[az]]\nname = 7\n", "FILE:2: name = 7: write text in quotes."),
    (f'{AZ}brokers = "3"\n', "FILE:3: brokers = '3': write a whole number without quotes."),
    (f"{AZ}brokers = 1.5\n", "FILE:3: brokers = 1.5: write a whole number without quotes."),
    (f"{AZ}brokers = true\n", "FILE:3: brokers = True: write a whole number without quotes."),
    (f"{AZ}brokers = -1\n", "FILE:3: brokers = -1: write a number of at least 0."),
    (f"{AZ}brokers = 49\n", "FILE:3: brokers = 49: write a number of at most 48."),
    (f"{AZ}zookeepers = 10\n", "FILE: The cluster has 10 zookeepers; use at most 9."),
    (
        f"{AZ}brokers = 0\n",
        "FILE: The cluster has no broker in any AZ; mode zookeeper needs at least one.",
    ),
    (
        f"{AZ}clients = 0\n",
        "FILE: The cluster has no client in any AZ; mode zookeeper needs at least one.",
    ),
    (
        f"{AZ}broker = 3\n",
        "FILE:3: there is no key 'broker' here; use name, brokers, zookeepers, controllers, clients.",
    ),
    (
        f'version = "2.7.1"\n{AZ}',
        "FILE:1: there is no key 'version' here; use kafka, mode, az, security, broker, topic, producer, "
        "consumer, load.",
    ),
    (f"{AZ}[security]\n", 'FILE:3: protocol is missing; add protocol = "...".'),
    (f"{AZ}[security]\nprotocol = 1\n", "FILE:4: protocol = 1: write text in quotes."),
    (
        f'{AZ}[security]\nprotocol = "TLS"\n',
        "FILE:4: [security]: protocol 'TLS': use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
    ),
    (
        f'{AZ}[security]\nprotocol = "SASL_SSL"\nuser = "a"\n',
        "FILE:5: there is no key 'user' here; use protocol, mechanism.",
    ),
    (f'mode = "raft"\n{AZ}', "FILE:1: mode = 'raft': use zookeeper, kraft, kraft-combined, migration."),
    (f"kafka = 2.7\n{AZ}", "FILE:1: kafka = 2.7: write text in quotes."),
    (
        f'mode = "kraft"\n{AZ}zookeepers = 1\n',
        "FILE:4: zookeepers = 1: mode 'kraft' has no zookeepers; remove the line.",
    ),
    (
        f'mode = "kraft-combined"\n{AZ}controllers = 1\n',
        "FILE:4: controllers = 1: mode 'kraft-combined' has no controllers; remove the line.",
    ),
    (
        '[[az]]\nname = "brokers"\n',
        "FILE:2: name = 'brokers': names such as az1, broker1 and brokers have a meaning in faults; "
        "choose another one.",
    ),
    (
        f'{AZ}[[az]]\nname = "az1"\n',
        "FILE:4: name = 'az1': names such as az1, broker1 and brokers have a meaning in faults; choose "
        "another one.",
    ),
    (
        f'[[az]]\nname = "az1"\nbrokers = 0\n{AZ}',
        "FILE:2: name = 'az1': faults and results call this AZ az2, because AZs with a host of every role "
        "come first; choose another name.",
    ),
    (
        '[[az]]\nname = "a b"\n',
        "FILE:2: name = 'a b': begin with a letter, and use up to 40 letters, digits, '.', '_' and '-'.",
    ),
    (
        '[[az]]\nname = ""\n',
        "FILE:2: name = '': begin with a letter, and use up to 40 letters, digits, '.', '_' and '-'.",
    ),
    ("az = 3\n", "FILE:1: az = 3: write an [[az]] table for each AZ."),
    (
        "".join(f'[[az]]\nname = "{name}"\n' for name in "abcdef"),
        "FILE: the file has 6 AZs; at most 5 are possible.",
    ),
    (
        "[[az]\n",
        "FILE:1: [[az]: expected ']]' at the end of an array declaration; end the line with ]].",
    ),
    (
        "kafka 2.7.1\n",
        "FILE:1: kafka 2.7.1: expected '=' after a key in a key/value pair; write key = value.",
    ),
    (
        "[az.paris]\nbrokers = 1\n",
        'FILE:1: [az.paris]: write [[az]], and name = "paris" below it.',
    ),
    (
        f"{AZ}[topics.orders]\npartitions = 3\n",
        "FILE:3: there is no table 'topics'; did you mean [topic.orders]?",
    ),
    (
        f"{AZ}[zone]\npartitions = 3\n",
        "FILE:3: there is no table 'zone'; use kafka, mode, az, security, broker, topic, producer, consumer, "
        "load.",
    ),
    ('[[azs]]\nname = "a"\n', "FILE:1: there is no table 'azs'; did you mean [[az]]?"),
    (
        "[[az]]\nname = north\n",
        'FILE:2: name = north: invalid value; write text in quotes, name = "north".',
    ),
    (
        f"{AZ}[broker]\na.b = 1\n[broker]\n",
        "FILE:5: [broker]: cannot declare ('broker',) twice; the file has this table already; write it "
        "once, with all its keys.",
    ),
    (
        f'{AZ}kafka = "2.7.1',
        'FILE:3: kafka = "2.7.1: unterminated string; end the text with a quote.',
    ),
    (b"\xff\xfe", "FILE cannot be read: it is not UTF-8 text; name a cluster file in TOML."),
)
"""What a cluster file says, and the whole sentence; FILE is its path."""

TABLES: tuple[tuple[str, str], ...] = (
    ("broker = 3\n", "FILE:1: broker = 3: write a table, [broker]."),
    ("[[broker]]\na = 1\n", "FILE:1: broker = [{'a': 1}]: write a table, [broker]."),
    ("[brokers]\na = 1\n", "FILE:1: there is no table 'brokers'; did you mean [broker]?"),
    ('[broker]\n"" = 1\n', "FILE:2: [broker] has an empty key; remove it."),
    ('[broker]\n"a b" = 1\n', "FILE:2: 'a b' is not a property of Kafka: its names consist of words"),
    ('[broker]\n"a..b" = 1\n', "FILE:2: 'a..b' is not a property of Kafka"),
    ("[broker]\nx = nan\n", "FILE:2: x = nan: Kafka has no such number."),
    ("[broker]\nx = 1979-05-27\n", "FILE:2: x = 1979-05-27: a property is text, a number"),
    ("[broker]\nx = [[1]]\n", "FILE:2: x = [[1]]: a property is text, a number"),
    ("[broker]\nx = [{a = 1}]\n", "FILE:2: x = [{'a': 1}]: a property is text, a number"),
    ('[broker]\nx = "a\\nb"\n', "FILE:2: x='a\\nb': a value is one line of text."),
    ('[broker]\na.b = 1\n"a.b" = 2\n', "FILE:3: a.b has a value already (FILE:3: a.b=1); set it once."),
    ("[broker]\na.b = 1\na.b = 2\n", "FILE:3: a.b = 2: cannot overwrite a value; it has a value"),
    ("[broker]\na.b = 1\na = 2\n", "FILE:3: a = 2: cannot overwrite a value; it has a value"),
    (
        "[broker]\nlisteners = PLAINTEXT://:9092\n",
        'FILE:2: listeners = PLAINTEXT://:9092: invalid value; write text in quotes, listeners = "PLAIN',
    ),
    (
        "[topic]\npartitions = 3\n",
        "FILE:2: partitions belongs to one topic; write it under [topic.NAME].",
    ),
    (
        "[topic]\nretentoin.ms = 3\n",
        "FILE:2: 'retentoin.ms' does not end in a topic property of Kafka; did you mean retention.ms?",
    ),
    (
        "[topic.t]\nmin.insync.replica = 3\n",
        "FILE:2: 't.min.insync.replica' does not end in a topic property of Kafka; did you mean",
    ),
    (
        "[topic.t]\nx = 3\n",
        "FILE:2: 't.x' does not end in a topic property of Kafka; docs/settings.md lists them.",
    ),
    ('[topic."a b"]\npartitions = 3\n', "FILE:2: 'a b' is not a topic name; use up to 249 letters"),
    ("[topic.t]\npartitions = 0\n", "FILE:2: topic 't': partitions = 0: give a number from 1 to 10000."),
    ("[topic.t]\npartitions = 1.5\n", "FILE:2: topic 't': partitions = 1.5: give a number"),
    ("[topic.t]\npartitions = true\n", "FILE:2: topic 't': partitions = True: give a number"),
    ("[topic.t]\nreplication-factor = 99\n", "FILE:2: topic 't': replication-factor = 99: give a number"),
    ("[topic.t]\nassignment = [1, 2]\n", "FILE:2: topic 't': assignment = [1, 2]: give the different"),
    (
        "[topic.t]\nassignment = [[1, 1]]\n",
        "FILE:2: topic 't': assignment = [[1, 1]]: give the different",
    ),
    ("[topic.t]\nassignment = [[]]\n", "FILE:2: topic 't': assignment = [[]]: give the different"),
    ("[topic.t]\nassignment = []\n", "FILE:2: topic 't': assignment = []: give the different"),
    ('[topic.t]\nassignment = [["1"]]\n', "FILE:2: topic 't': assignment = [['1']]: give the different"),
)
"""Tables of settings, which `AZ` follows in the file, and how the sentence begins."""

BROKER_PROPERTIES: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe=1\n", "FILE:1: 'ÿþ' is not a property of Kafka: its names consist of words"),
    (b"a=\x00\n", "--broker-config FILE cannot be read: it is not text; name a file of properties."),
    (b"x=1\n" * (1 << 19), "--broker-config FILE is longer than 1 MiB; name a file of properties."),
    (b"=3\n", "FILE:1: the line has no key; write key=value."),
    (b"a=1\n\nnum.io.threads\n", "FILE:3: 'num.io.threads' has no value; write num.io.threads=..., or"),
    (b"a=1\nb=2\na=3\n", "FILE:3: a=3: FILE:1 sets it to '1' already; keep one of the lines."),
    (b"a=\\u12\n", "FILE:1: '\\\\u12' is not a Unicode escape; write \\u and four hexadecimal digits."),
    (b"a=1\\n2\n", "FILE:1: a='1\\n2': a value is one line of text."),
    (b"a\\ b=1\n", "FILE:1: 'a b' is not a property of Kafka: its names consist of words"),
    (b"[broker]\n", "FILE: this is an INI file with sections; name a file that holds the lines of one"),
    (
        b'{"a": 1}\n',
        "FILE: Kafka's brokers have none of its properties, such as 'a'; name a file with Kafka's",
    ),
    (b'{"a": 1\n', "FILE:2: this is not YAML: "),
    (b"{a: &a {b: *a}}\n", "FILE has more than 5000 values, or nests them more than 32 deep; name a file of"),
    (
        b"{a: &a [1,1], b: &b {c: *a, d: *a}, "
        + b"".join(
            b"e%d: &e%d {f: *%s, g: *%s}, "
            % (n, n, (b"e%d" % (n - 1) if n else b"b"), (b"e%d" % (n - 1) if n else b"b"))
            for n in range(20)
        )
        + b"}",
        "FILE has more than 5000 values, or nests them",
    ),
)
"""What a properties file says, and how the sentence begins."""
