"""The command line: commands and printing, no logic. `edgesparse --help` lists the commands."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from edgesparse import __version__
from edgesparse.cli import (
    convert,
    demo,
    deploy,
    device,
    doctor,
    export,
    inspect,
    profile,
    run,
    score,
    stream,
    verify,
)
from edgesparse.cli.console import fail, say
from edgesparse.cli.remarks import refused
from edgesparse.errors import EdgeSparseError, UnsupportedModel

PIPE_CLOSED = 141
"""As a shell says of a program that SIGPIPE ended: 128 + 13."""


def leave_pipe() -> None:
    """What is still to be written goes nowhere, so that nothing complains at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Commands(TyperGroup):
    """Runs a command and turns what it raises on purpose into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UnsupportedModel as error:
            fail(refused(error.model, error.issues))
            raise typer.Exit(error.exit_code) from error
        except EdgeSparseError as error:
            fail(str(error))
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # `edgesparse ... | head`: nobody reads any more
                leave_pipe()
                raise typer.Exit(PIPE_CLOSED) from error
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}")
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=Commands, name="edgesparse", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"edgesparse {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and exit.")
    ] = False,
) -> None:
    """Compile pruned int8 networks into plans and run them. Exit codes: 0 fine, 1 a check failed,
    2 bad input."""


app.command("convert")(convert.convert)
app.command("inspect")(inspect.inspect)
app.command("run")(run.run)
app.command("profile")(profile.profile)
app.command("stream")(stream.stream)
app.command("deploy")(deploy.deploy)
app.command("verify")(verify.verify)
app.command("export")(export.export)
app.command("score")(score.score)
app.command("doctor")(doctor.doctor)
app.add_typer(device.device, name="device")
app.add_typer(demo.demo, name="demo")


def main() -> None:
    """Entry point of the `edgesparse` program."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")  # a terminal without our characters shows "?"
    try:
        app()
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            leave_pipe()
            sys.exit(PIPE_CLOSED)
