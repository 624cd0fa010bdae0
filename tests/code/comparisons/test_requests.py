import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from data.comparisons.formats.comparison_json import checked_request, tables_of
from data.comparisons.request import EXAMPLE, Name, read_request
from data.comparisons.sides import Samples, five_numbers
from data.errors import InputError
from features.comparisons.vectors import model_columns
from serving.comparisons import render
from serving.comparisons.endpoints import answer_json, answer_many
from serving.comparisons.judge import judge_tables
from serving.corun.schemas import OnlineRequest, StaticRequest
from serving.fingerprints.schemas import IrupRequest
from serving.http.bodies import parse_json, request_of
from serving.http.schemas import RefusedError
from serving.matrices.schemas import MatricesRequest
from tests.code.comparisons.posted import comparison as posted
from tests.code.comparisons.posted import served_model
from tests.repeated_keys import objects_of, with_repeated_key
from training.estimators.catalogue import CATALOGUE, build_pipeline, without_sampler

usual = st.floats(90.0, 110.0)
odd = st.sampled_from([100, 100.0, 100.5, 0, -0.0, -1.0, 450.0, 1e-300, 1.7e308, 5e-324, 2**70])
sample = usual | st.integers(95, 105) | odd
five = st.lists(usual | usual | odd, min_size=5, max_size=5).map(
    lambda given: dict(zip(("min", "q1", "median", "q3", "max"), sorted(given), strict=True))
)
some = st.lists(usual, min_size=2, max_size=12) | st.lists(sample, max_size=6) | five
history = st.lists(st.lists(usual, max_size=3) | some, max_size=12) | st.integers(38, 45).map(
    lambda length: [[100.0 + version % 7] for version in range(length)]
)
configuration = st.fixed_dictionaries(
    {"threads": st.integers(1, 9), "baseline": some, "target": some},
    optional={"history": history, "later": history},
)
name = st.sampled_from(["x", "größe", 'a "<b>"', "\U0001f600\u2028", " y"])
comparison = st.fixed_dictionaries(
    {
        "operation": name,
        "better": st.sampled_from(["lower", "higher"]),
        "configurations": st.lists(configuration, max_size=5, unique_by=lambda one: one["threads"]),
    },
    optional={"benchmark": name, "machine": name, "unit": name},
)
#: What may be wrong with the text of a request, or only looks so.
SLIPS = [
    '"', ",", "0", "-", "NaN", "-Infinity", "e5", ".", "null", "true", "[", "]", "{", "}", "\\", "\\ud800",
    "1e999", " ", "\ufeff", "\x01", "9" * 30, "9" * 5000, '"threads": 0, ', '"threads": 2, ', '"better": 1, ',
    '"target": [NaN], ', '"unit": "\\ud83d", ', '"unit": "\\ud83d\\ude00", ', '"unit": "\\u00a0", ',
    '"x": 1, ', '"history": null, ', '"history": [[]], ', "1.0", "1e0",
]  # fmt: skip


ONE = EXAMPLE["comparisons"][0]


def numbered(comparisons):
    return [one | {"comparison_id": f"c{place}"} for place, one in enumerate(comparisons)]


def body(comparisons):
    return json.dumps({"comparisons": comparisons}).encode()


def last_word(content):
    """Read a request part by part, as it is read to say what is wrong with it."""
    request = checked_request(parse_json(content), "body")
    asked = [one.model_dump(exclude={"labels"}) for one in request.comparisons]
    return request.model_dump(exclude={"comparisons"}) | {"comparisons": asked}


def served_by(name):
    generator, names = np.random.default_rng(3), model_columns("retrospective")
    features = generator.normal(0, 0.5, (300, len(names)))
    features[generator.random(features.shape) < 0.1] = np.nan
    fails = (np.nan_to_num(features[:, 0]) + generator.normal(0, 0.2, 300) < -0.2).astype(np.int64)
    model = CATALOGUE[name]
    fitted = without_sampler(build_pipeline(model, model.start, fails, 0).fit(features, fails))
    return served_model(fitted, names)


@pytest.fixture(scope="module")
def linear():
    return served_by("logistic")


def told(content):
    return [line.strip().rstrip(",") for line in content.decode().splitlines()[2:-2]]


def explained(content):
    return content.removesuffix(b"}") + b', "explain": true}'


@pytest.fixture(scope="module", params=["logistic", "random-forest", "xgboost"])
def served(request):
    return served_by(request.param)


@given(st.lists(comparison, min_size=1, max_size=5).map(numbered))
@settings(max_examples=8)
def test_verdict_bytes_do_not_depend_on_batching_or_source(served, comparisons):
    bodies = [explained(body([one])) for one in comparisons]
    alone, together = [answer_json(one, served) for one in bodies], answer_many(bodies, served)
    assert [one.content for one in together] == [one.content for one in alone]
    assert [one.vectors.tobytes() for one in together] == [one.vectors.tobytes() for one in alone]
    mixed = [ask for one in comparisons for ask in (body([one]), explained(body([one])))]
    expected = [answer_json(ask, served).content for ask in mixed]
    assert [one.content for one in answer_many(mixed, served)] == expected
    batch = answer_json(explained(body(comparisons)), served).content
    assert told(batch) == [line for one in alone for line in told(one.content)]
    assert render.as_json(judge_tables(tables_of({"comparisons": comparisons}), served)).encode() == batch
    assert [json.dumps(json.loads(line)) for line in told(batch)] == told(batch)


@given(
    st.lists(comparison, min_size=1, max_size=2).map(numbered).map(body),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(SLIPS), st.integers(0, 3)), max_size=2),
)
@settings(max_examples=150)
def test_fast_and_full_decoders_read_the_same(content, slips):
    text = content.decode()
    for share, slip, dropped in slips:
        place = int(share * len(text))
        if slip.endswith(", "):  # a key, which may then stand twice
            place = text.rfind("{", 0, place + 1) + 1
            text = text[:place] + slip + text[place:]
        else:
            text = text[:place] + slip + text[place + dropped :]
    found = read_request(text.encode("utf-8", "surrogatepass"))
    # what is valid is read by the fast one
    assert found is not None or slips
    if found is not None:
        assert msgspec.to_builtins(found) == last_word(text.encode())


GOOD = json.dumps(EXAMPLE).encode()


@pytest.mark.parametrize(
    "content",
    [
        b'{"comparisons": []}',
        body([ONE | {"operation": "\u2003"}]),
        body([ONE, ONE | {"comparison_id": "b", "configurations": [{"baseline": [1, [2]], "target": [1]}]}]),
        GOOD.replace(b'"threads": 4', b'"threads": 4.5'),
        *(GOOD.replace(b"7406.4", wrong) for wrong in (b"true", b"1e999", b'"7406.4"')),
        GOOD + b" {}",
    ],
)
def test_the_fast_decoder_rejects_wrong_requests(content):
    assert read_request(content) is None
    with pytest.raises((InputError, RefusedError)):
        last_word(content)


@given(st.lists(comparison, min_size=1, max_size=3).map(numbered), st.data())
@settings(max_examples=40)
def test_any_valid_request_with_a_repeated_key_is_refused(linear, comparisons, data):
    content = {"comparisons": comparisons, "max_false_negative_rate": 0.05}
    chosen = data.draw(st.sampled_from(objects_of(content)))
    key = data.draw(st.sampled_from(sorted(chosen)))
    twice = with_repeated_key(content, chosen, key, chosen[key], escaped=data.draw(st.booleans())).encode()
    with pytest.raises(RefusedError, match=f'the key "{key}" appears twice') as refused:
        answer_json(twice, linear)
    assert refused.value.status_code == 400
    (together,) = answer_many([twice], linear)
    assert str(together) == str(refused.value)


@pytest.mark.parametrize("key", ["max_false_negative_rate", "max_false_positive_rate", "costs"])
def test_decision_options_count_with_escaped_keys_too(linear, key):
    """The card of this model promises nothing: who wants a promise is refused; costs decide otherwise."""
    wish = {"false_negative": 1, "false_positive": 1, "review": 1} if key == "costs" else 0.05
    content = json.dumps({key: wish, **EXAMPLE}).encode()
    spelled = content.replace(key[:1].encode(), f"\\u{ord(key[0]):04x}".encode(), 1)
    assert json.loads(spelled) == json.loads(content)
    *answers, plain = answer_many([content, spelled, GOOD], linear)
    first, second = (str(one) if isinstance(one, Exception) else one.content for one in answers)
    assert first == second != plain.content == answer_json(GOOD, linear).content


@pytest.mark.parametrize("kind", [StaticRequest, OnlineRequest, MatricesRequest, IrupRequest])
def test_requests_of_every_family_with_a_repeated_key_are_refused(kind):
    content = kind.model_json_schema()["examples"][0]
    assert request_of(json.dumps(content).encode(), kind)
    for chosen in objects_of(content)[:20]:
        key = next(iter(chosen))
        with pytest.raises(RefusedError, match="appears twice"):
            request_of(with_repeated_key(content, chosen, key, chosen[key]).encode(), kind)


def test_both_decoders_agree_on_white_space_in_names():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert len(spaces) > 20
    known = TypeAdapter(Name)
    for space in spaces:
        with pytest.raises(ValidationError):
            known.validate_python(space)
    for letter in ("\u200b", "\u2060", "\ufeff", "\u180e", "\x00", "\x1b", "\u2800"):
        assert known.validate_python(letter).strip()


def test_a_bad_request_does_not_affect_its_batch(linear):
    bodies = [b"{", GOOD, b'{"comparisons": 3}', b"\xef\xbb\xbf" + GOOD]
    no_json, first, no_request, second = answer_many(bodies, linear)
    for found, content in ((no_json, bodies[0]), (no_request, bodies[2])):
        with pytest.raises(type(found)) as caught:
            answer_json(content, linear)
        assert str(caught.value) == str(found)
    assert first.content == second.content == answer_json(GOOD, linear).content
    assert first.vectors.shape == (1, len(model_columns("retrospective")))


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_an_overflowing_change_is_reported_as_a_large_number(linear, better):
    asked = posted([1e-300] * 3, [1e300] * 3, better=better)
    (verdict,) = json.loads(answer_json(body([asked]), linear).content)["verdicts"]
    assert abs(verdict["moved"]["change"]) == 1e9


lists = st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=9), max_size=5)


@given(lists)
@settings(max_examples=100)
def test_five_numbers_equal_the_quantiles_of_numpy(given):
    lengths = np.array([len(one) for one in given], np.int64)
    stops, values = np.cumsum(lengths), np.array([value for one in given for value in one], np.float64)
    found = five_numbers(Samples(values, np.zeros(len(values), np.int64), stops - lengths, stops))
    for one, numbers in zip(given, found, strict=True):
        with np.errstate(invalid="ignore", over="ignore"):
            expected = np.quantile(one, (0, 0.25, 0.5, 0.75, 1)) if one else np.full(5, np.nan)
        np.testing.assert_array_equal(numbers, expected)
