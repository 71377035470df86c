"""What the command palette searches: the application's own commands, in their own order."""

from __future__ import annotations

from textual.command import DiscoveryHit, Hits
from textual.system_commands import SystemCommandsProvider


class Commands(SystemCommandsProvider):
    """Textual's, which would list them by the alphabet."""

    async def discover(self) -> Hits:
        for title, says, run, listed in self.app.get_system_commands(self.screen):
            if listed:
                yield DiscoveryHit(title, run, help=says)
