"""Random XML elements."""

from hypothesis import strategies as st

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
