"""Comparison XML written for tests: one operation as figure 6.1 has it, and documents of any size."""

from __future__ import annotations

from pathlib import Path

SIDE = '<{}_result min="{}" first_q="2" median="{}" third_q="4" max="5"/>'


def result(
    threads: object = 4, low: object = 1, median: object = 3, sides: tuple[str, ...] = ("base", "target")
):
    inner = "".join(SIDE.format(side, low, median) for side in sides)
    return f'<result threads_no="{threads}">{inner}</result>'


def operation(name: str = "bt", status: str = "pass", inner: str | None = None) -> str:
    inner = result() if inner is None else inner
    return (
        f'<comparison_result benchmark_name="nas" operation_name="{name}" result_status="{status}">'
        f"{inner}</comparison_result>"
    )


def document(*operations: str) -> str:
    return f'<comparison_results report_uuid="r">\n{"".join(operations)}</comparison_results>'


def write_large(path: Path, megabytes: int) -> None:
    """Write a valid document of at least this size, one operation with eight configurations after another."""
    inner = "\n".join(result(threads) for threads in (1, 2, 4, 8, 16, 32, 64, 128))
    with path.open("w") as file:
        file.write('<comparison_results report_uuid="r">\n')
        number = 0
        while file.tell() < megabytes << 20:
            file.writelines(operation(f"op{number + index}", inner=inner) + "\n" for index in range(100))
            number += 100
        file.write("</comparison_results>\n")
