"""Reports in XML, built by hand."""

FIVE = 'min="1" first_q="2" median="3" third_q="4" max="5"'


BASE, TARGET = f"<base_result {FIVE}/>", f"<target_result {FIVE}/>"


RESULT = f'<result threads_no="4">{BASE}{TARGET}</result>'


def report(*comparisons, uuid="r"):
    return f'<comparison_results report_uuid="{uuid}">\n{"".join(comparisons)}</comparison_results>\n'


def comparison(operation="bt", content=RESULT, status="", **further):
    attributes = "".join(f' {name}="{value}"' for name, value in further.items())
    return (
        f'<comparison_result benchmark_name="NAS" operation_name="{operation}" '
        f'result_status="{status}"{attributes}>{content}</comparison_result>\n'
    )
