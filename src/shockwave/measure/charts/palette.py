"""The colours of the report: one hue per policy, muted tones for models.

Policies are told apart by hue, for the first eight, and by dashes after that, so a line is
recognisable in print and by readers who see colours differently. Each colour has a shade
for light and one for dark surfaces; the page picks by the reader's preference.
"""

from __future__ import annotations

# (light surface, dark surface)
POLICY_SHADES = (
    ("#2a6fdb", "#5b9bf3"),  # blue
    ("#e2622a", "#ef8354"),  # orange
    ("#148f6a", "#2fbf91"),  # teal
    ("#8447c9", "#b48bf0"),  # violet
    ("#c98a00", "#e3b341"),  # amber
    ("#d0417e", "#ef7fae"),  # rose
    ("#5d6b7a", "#a3b1c0"),  # slate
    ("#3f7d20", "#86c465"),  # green
)
DASHES = ("", "7 4", "2 3")

MODEL_SHADES = (
    ("#6d9bc8", "#5f8fbe"),
    ("#e2a864", "#c98f4b"),
    ("#7fb892", "#62a078"),
    ("#cd8290", "#b96d7c"),
    ("#9f92c9", "#8a7cb8"),
    ("#c2b16f", "#a3924f"),
    ("#70b4b8", "#559a9f"),
    ("#a88f7c", "#917661"),
)
OTHER_MODELS = ("#a9afb6", "#757c85")


def policy_class(position: int) -> str:
    """The style class of the policy at ``position`` in the report; classes repeat after 24."""
    return f"p{position % (len(POLICY_SHADES) * len(DASHES))}"


def swatch(position: int) -> str:
    """A short line in the colour and dashes of a policy, to stand before its name."""
    return (
        f'<svg class="swatch {policy_class(position)}" viewBox="0 0 20 8" aria-hidden="true">'
        '<path d="M0,4H20"/></svg>'
    )


def model_class(position: int) -> str:
    """The style class of a model; those beyond the palette share the last."""
    return f"m{min(position, len(MODEL_SHADES))}"


def stylesheet() -> str:
    """Variables for both surfaces and a class for each policy and model."""
    models = (*MODEL_SHADES, OTHER_MODELS)
    shades = [(f"--p{i}", *pair) for i, pair in enumerate(POLICY_SHADES)]
    shades += [(f"--m{i}", *pair) for i, pair in enumerate(models)]
    light = "".join(f"{name}:{shade};" for name, shade, _ in shades)
    dark = "".join(f"{name}:{shade};" for name, _, shade in shades)
    rules = [f":root{{{light}}}", f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"]
    for position in range(len(POLICY_SHADES) * len(DASHES)):
        dash = DASHES[position // len(POLICY_SHADES)]
        dashed = f"--dash:{dash};" if dash else ""
        rules.append(f".p{position}{{--c:var(--p{position % len(POLICY_SHADES)});{dashed}}}")
    rules += [f".m{position}{{--c:var(--m{position});}}" for position in range(len(models))]
    return "\n".join(rules)
