"""The tables of `bench quality`."""

from __future__ import annotations

from typing import Any

from lsp_server.bench.report import table


def page(result: dict[str, Any]) -> str:
    confidence = result["confidence"]
    figures = ("exact line", "edit similarity", "first token", "places")
    shares = ("confidence asked for", "shown", "right of these", "right shown", "wrong shown")
    parts = [
        f"{result['model']}, {result['lines']} lines of {result['data']}, two places each",
        table([("variant", *figures), *_rows(result["rows"])]),
        *_of_humaneval(result["rows"], figures),
        f"{confidence['checked']} lines to check the rule, {confidence['right']} of them right",
        table([shares, *_shown(confidence)]),
    ]
    if "weights" in result:
        parts.append(
            f"WEIGHTS of lsp_server/generation/confidence.py:\n{_weights(result['weights'])}"
        )
    parts += [f"MISSED: {bar}" for bar in result["missed"]]
    return "\n\n".join(parts)


def _of_humaneval(rows: list[dict[str, Any]], figures: tuple[str, ...]) -> list[str]:
    single = [{"variant": row["variant"], **row["humaneval"]} for row in rows if row["humaneval"]]
    if not single:
        return []
    return [table([("of these in HumanEval, single lines", *figures), *_rows(single)])]


def _rows(of_variants: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for row in of_variants:
        if "status" in row:
            rows.append((row["variant"], row["status"], "", "", ""))
            continue
        figures = (f"{row[name]:.3f}" for name in ("exact_line", "edit_similarity", "first_token"))
        rows.append((row["variant"], *figures, str(row["cases"])))
    return rows


def _shown(confidence: dict[str, Any]) -> list[tuple[str, ...]]:
    named = [
        (f"{name} {row['threshold']:.2f}", row) for name, row in confidence["settings"].items()
    ]
    others = [(f"{row['threshold']:.2f}", row) for row in confidence["curve"][::2]]
    figures = ("coverage", "precision", "right", "wrong")
    return [(name, *(f"{row[key]:.0%}" for key in figures)) for name, row in (*others, *named)]


def _weights(weights: dict[str, float]) -> str:
    lines = [f"        {name}={value}," for name, value in weights.items() if name != "bias"]
    return "\n".join(
        [
            "WEIGHTS = Weights(",
            f"    bias={weights['bias']},",
            "    weights=Features(",
            *lines,
            "    ),",
            ")",
        ]
    )
