"""A series of SAP HANA and its marks, built by hand."""

MARKS = {"8": [4], "11": [4], "15": [5]}


def rows(values, first=100):
    """Write two repetitions a version."""
    lines = ["index_1based,timestamp,sut_version,value"]
    for version, value in enumerate(values):
        lines += [
            f"{2 * version + k + 1},2021-09-01 10:00:0{k},{first + version},{value + k / 10}"
            for k in range(2)
        ]
    return "\n".join(lines) + "\n"
