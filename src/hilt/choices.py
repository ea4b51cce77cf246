"""What the settings that are also flags may be; apart from them, for a command that only looks at its flags."""

from __future__ import annotations

CHOICES = {
    "mode": ("normal", "auto-accept", "yolo", "plan", "scheduler", "headless"),
    "profile": ("nano", "minimal", "full"),  # from strict to lax
    "approve": ("deny", "once", "always", "all"),
    "dialect": ("jinn", "jcli", "agentos"),
}
