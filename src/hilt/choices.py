"""The values of settings that are also flags; a separate module, so that parsing flags need not load the settings."""

from __future__ import annotations

CHOICES = {
    "mode": ("normal", "auto-accept", "yolo", "plan", "scheduler", "headless"),
    "profile": ("nano", "minimal", "full"),  # from strict to lax
    "approve": ("deny", "once", "always", "all"),
    "dialect": ("jinn", "jcli", "agentos", "claude_code", "codex"),
}
