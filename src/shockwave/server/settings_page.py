"""The page of the documentation about settings, made from what they are."""

from __future__ import annotations

from itertools import groupby

from shockwave.server.settings_catalogue import Setting, known_settings

_HEAD = """\
# Settings

Made from the settings themselves by `shockwave config --markdown > docs/settings.md`.

A setting is a flag of `shockwave serve`, an environment variable, or a key of a TOML file
(`--config FILE`, `$SHOCKWAVE_CONFIG`, else `./shockwave.toml`). Flags win over variables, those
over the file, that over the defaults. `shockwave config`, with the flags of `serve`, prints every
setting in force and where it came from.

```toml
round_seconds = 60
executor = "slurm"

[slurm]
partition = "gpu"  # the same as slurm_partition = "gpu" above all sections
```

Executors that other packages bring have settings too: `serve --executor NAME --help` lists them.
"""
_TABLE = "| setting | flag | variable | default | |\n|---|---|---|---|---|\n"


def settings_page() -> str:
    """As Markdown, a table for each group of settings."""
    parts = [_HEAD]
    for panel, settings in groupby(known_settings().values(), key=lambda setting: setting.panel):
        rows = "".join(_row(setting) for setting in settings)
        parts.append(f"\n## {panel}\n\n{_TABLE}{rows}")
    return "".join(parts)


def _row(setting: Setting) -> str:
    has_flags = not (setting.is_secret or setting.is_table)
    flags = "<br>".join(f"`{flag}`" for flag in setting.flags) if has_flags else ""
    variable = "" if setting.is_table else f"`{setting.variable}`"
    default = f"`{setting.default}`" if setting.default else ""
    text = setting.description.replace("|", "\\|")
    return f"| `{setting.name}` | {flags} | {variable} | {default} | {text} |\n"
