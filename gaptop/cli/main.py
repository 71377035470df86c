"""The command line's root: a group whose default command watches a server. A command is imported when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

import click

from gaptop import __version__
from gaptop.cli.exits import Exit, broken, show, tell

_COMMANDS: Final = {
    "record": ("gaptop.cli.record:record", "Record what gaptop measures into a file."),
    "open": ("gaptop.cli.open_file:open_file", "Open a recording on the screen."),
    "web": ("gaptop.cli.web:web", "Show the screen in a browser."),
    "report": ("gaptop.cli.report:report", "Print the report of a recording."),
    "export": ("gaptop.cli.export:export", "Write a recording for flame graph programs or Perfetto."),
    "config": ("gaptop.cli.config:config", "Show every setting, its value and where it came from."),
    "doctor": ("gaptop.cli.doctor:doctor", "Tell what can be measured here, and how to get the rest."),
    "stacks": ("gaptop.cli.stacks:stacks", "Show what every Python thread of a process does now."),
    "demo": ("gaptop.cli.demo:demo", "Try gaptop on a simulated server."),
    "lab": ("gaptop.cli.lab:lab", "Simulate a server whose every idle interval has a known cause."),
}
"""Where each command is, and its line in the help: telling it needs no command, and most of the time went into them."""
_DEFAULT: Final = "gaptop.cli.live:live"
_OWN_OPTIONS: Final = ("-h", "--help", "-V", "--version")

_EXAMPLES: Final = """\b
Examples:
  gaptop                            find this host's servers and open the screen
  gaptop http://127.0.0.1:8000      watch this server
  gaptop HOST:8000 HOST:8001        watch two; the tab key shows each by itself
  gaptop --once                     watch for 10 s, print a report
  gaptop record -o run.gaptop       record; open it later, or elsewhere
  sudo gaptop record -o - | gaptop open -   see threads where ptrace is restricted
  gaptop demo                       try it on a simulated server

\b
Exit codes: 0 fine, 1 findings of --fail-on, 2 usage, 3 nothing to observe,
4 file not readable or not writable, 70 a bug of gaptop, 130 interrupted."""


def _load(target: str) -> click.Command:
    module, _, name = target.partition(":")
    command = getattr(importlib.import_module(module), name)
    assert isinstance(command, click.Command)
    return command


class _Group(click.Group):
    """Loads a command when it is needed; what is no command is taken for arguments of the default one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "live":
            return _load(_DEFAULT)
        known = _COMMANDS.get(cmd_name)
        return _load(known[0]) if known else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in _COMMANDS and args[0] not in _OWN_OPTIONS):
            if args and args[0].isalpha() and args[0] != "localhost":
                # A lone word is far more often a mistyped command than the name of a host.
                import difflib  # not for a command that only shows its help

                near = [f"--{args[0]}"] if args[0] in ("help", "version") else []
                near = near or difflib.get_close_matches(args[0], _COMMANDS, 1)
                meant = f"did you mean gaptop {near[0]}?" if near else "gaptop --help tells them."
                raise click.UsageError(
                    f"no command is called {args[0]!r}; {meant} A host is named as http://{args[0]}:PORT.", ctx
                )
            args = ["live", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has what it wanted. Click would exit with 1, which means findings here; and a second write at
            # exit would print a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.FINE

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] [URL|PID]...")
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        live = _load(_DEFAULT)
        click.Command.format_options(live, click.Context(live, parent=ctx), formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in _COMMANDS.items()])


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLES,
)
@click.version_option(__version__, "-V", "--version", prog_name="gaptop")
def cli() -> None:
    """Where did the GPU's time go, and why? Watches a live LLM server and names the cause of each valley. Read-only."""


def main() -> None:
    """Entry point of the console script. Ends with the exit codes of :class:`gaptop.cli.exits.Exit`."""
    try:
        code = cli.main(prog_name="gaptop", standalone_mode=False)
    except click.ClickException as error:
        show(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(Exit.INTERRUPTED)
    except OSError as error:
        if error.filename is not None:
            broken(error)
        # Output that cannot be written has no file name: /dev/full, a full disk behind a redirection.
        tell(f"cannot write the output: {error.strerror or error}; make room there, or send it elsewhere.")
        sys.exit(Exit.UNWRITABLE)
    except Exception as error:
        broken(error)
    sys.exit(code if isinstance(code, int) else Exit.FINE)
