"""edgesparse doctor: what works here, and how to get the rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from edgesparse.cli.console import emit, say
from edgesparse.doctor import State, examine, works

STYLE = {State.OK: "green", State.MISSING: "yellow", State.BROKEN: "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Say what is installed, what is missing and how to get it. Exit code 1: the core is broken."""
    findings = examine()
    fine = works(findings)
    if as_json:
        emit({"works": fine, "findings": [
            {**asdict(finding), "state": finding.state.value} for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            say(f"{finding.name:{width}}  {finding.state.value:7}  {finding.detail}"
                + (f"  ({finding.serves})" if finding.state is not State.OK else ""),
                STYLE[finding.state] if finding.state is not State.OK else "")
            if finding.state is not State.OK and finding.remedy:
                say(f"{'':{width}}  get it: {finding.remedy}")
        say("edgesparse works" if fine else "edgesparse does not work", STYLE[
            State.OK if fine else State.BROKEN])
    if not fine:
        raise typer.Exit(1)
