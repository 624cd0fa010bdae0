"""Documents written for tests: requests in JSON, comparison XML as figure 6.1 has it, and random XML."""

from hypothesis import strategies as st

SIDE = '<{}_result min="{}" first_q="2" median="{}" third_q="4" max="5"/>'


def result(threads=4, low=1, median=3, sides=("base", "target")):
    inner = "".join(SIDE.format(side, low, median) for side in sides)
    return f'<result threads_no="{threads}">{inner}</result>'


def operation(name="bt", inner=None, status="", **further):
    named = {"benchmark_name": "NAS", "operation_name": name, "result_status": status} | further
    attributes = "".join(f' {key}="{value}"' for key, value in named.items())
    return f"<comparison_result{attributes}>{result() if inner is None else inner}</comparison_result>\n"


def document(*operations, uuid="r"):
    return f'<comparison_results report_uuid="{uuid}">\n{"".join(operations)}</comparison_results>\n'


def write_large(path, megabytes):
    """Write a valid document of at least this size, one operation with eight configurations after another."""
    inner = "\n".join(result(threads) for threads in (1, 2, 4, 8, 16, 32, 64, 128))
    with path.open("w") as file:
        file.write('<comparison_results report_uuid="r">\n')
        number = 0
        while file.tell() < megabytes << 20:
            file.writelines(operation(f"op{number + index}", inner) for index in range(100))
            number += 100
        file.write("</comparison_results>\n")


def configuration(threads=2, baseline=(1.0, 2.0), target=(3.0, 4.0), **more):
    return {"threads": threads, "baseline": list(baseline), "target": list(target), **more}


def request(*configurations, **more):
    comparison = {"comparison_id": "a", "operation": "sort", "better": "lower", **more}
    return {"comparisons": [{**comparison, "configurations": list(configurations)}]}


ELEMENTS = st.recursive(
    st.just(""),
    lambda inner: st.builds(
        lambda name, value, inside: f"<{name}{value}>{''.join(inside)}</{name}>",
        st.sampled_from(["rules", "baseline", "targets", "target", "start", "Kernel", "x_result", "threads"]),
        st.sampled_from(["", ' value=".*"', ' value="("', ' title="t"', ' number="2"', ' value="&#9;"']),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
