"""Command lines and configuration files of the Java processes; Kafka's shell scripts are not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.kafka.versions import LogSyntax

BROKER = "kafka.Kafka"
ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
FORMAT = "kafka.tools.StorageTool"

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
"""The id of every KRaft cluster here: any base64 UUID."""

_LOG4J1 = """\
log4j.rootLogger=INFO, A
log4j.appender.A=org.apache.log4j.FileAppender
log4j.appender.A.File={file}
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d{{ISO8601}} %p %m (%c{{1}})%n
"""
_LOG4J2 = """\
status=error
appender.A.type=File
appender.A.name=A
appender.A.fileName={file}
appender.A.layout.type=PatternLayout
appender.A.layout.pattern=%d{{yyyy-MM-dd HH:mm:ss,SSS}} %p %m (%c{{1}})%n
rootLogger.level=INFO
rootLogger.appenderRef.A.ref=A
"""
_LOGGER_LEVELS = {
    "state.change.logger": "INFO",
    "kafka.controller": "INFO",
    "kafka.server.DefaultAlterIsrManager": "DEBUG",
    "kafka.request.logger": "WARN",
}


@dataclass(frozen=True, kw_only=True)
class JavaProcess:
    """One Java process of a host; paths are as seen inside the host."""

    main_class: str
    class_path: str
    arguments: tuple[str, ...]
    log_config: str
    log_syntax: LogSyntax = "log4j1"
    heap_mb: int = 384
    archive: str | None = None
    """Application class-data archive; Java ignores one that does not match."""
    java: str = "java"
    system_properties: Mapping[str, str] = field(default_factory=dict)

    def argv(self) -> tuple[str, ...]:
        """The command line."""
        logging = "log4j.configuration" if self.log_syntax == "log4j1" else "log4j2.configurationFile"
        return (
            self.java,
            f"-Xmx{self.heap_mb}m",
            f"-Xms{min(96, self.heap_mb)}m",
            f"-Xmn{min(48, self.heap_mb // 2)}m",  # with less, the JVM needs a fifth more processor time
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Xshare:auto",
            *([f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []),
            f"-D{logging}=file:{self.log_config}",
            "-Duser.timezone=UTC",  # log lines are mapped to the run's clock
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.cnxTimeout=500",  # the default, 5 s, blocks elections while packets are dropped
            *(f"-D{key}={value}" for key, value in self.system_properties.items()),
            "-cp",
            self.class_path,
            self.main_class,
            *self.arguments,
        )


def properties_text(properties: Mapping[str, object]) -> str:
    """A Java properties file: one `key=value` per line, in the given order."""
    return "".join(f"{key}={_escaped(str(value))}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    """A value that Java reads as it is: files of properties are Latin-1, and `\\` begins an escape."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    return text if text.isascii() else "".join(_as_ascii(letter) for letter in text)


def _as_ascii(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return (
        letter
        if letter.isascii()
        else "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
    )


def log_config_text(log_file: str, syntax: LogSyntax) -> str:
    """The logging configuration: INFO to one file, and more from some loggers."""
    if syntax == "log4j1":
        text = _LOG4J1.format(file=log_file)
        text += "".join(f"log4j.logger.{name}={level}\n" for name, level in _LOGGER_LEVELS.items())
    else:
        text = _LOG4J2.format(file=log_file)
        for number, (name, level) in enumerate(_LOGGER_LEVELS.items()):
            text += f"logger.{number}.name={name}\nlogger.{number}.level={level}\n"
    return text
