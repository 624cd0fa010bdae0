<?php
// Programs in PHP: php scripts.php NAME WORK [SIZE [SHAPE]]. Prints the seconds of the work.
[, $name, $work] = $argv;
$size = (int) ($argv[3] ?? 0);
$shape = $argv[4] ?? '';
$programs = [
    'arrays' => function () use ($size, $shape) {
        $n = $size ?: 1000;
        if ($shape === 'text') return function () use ($n) { $t = []; for ($i = 0; $i < $n; $i++) $t['k' . $i] = $i; return array_sum($t); };
        return function () use ($n) { $t = []; for ($i = 0; $i < $n; $i++) $t[$i] = $i; return array_sum($t); };
    },
    'text' => function () use ($size, $shape) {
        $text = str_repeat('the quick brown fox jumps over the lazy dog ', $size ?: 50);
        if ($shape === 'regex') return fn () => preg_match_all('/\b\w+\b/', $text, $found);
        return fn () => count(array_count_values(explode(' ', $text)));
    },
];
$unit = $programs[$name]();
$unit();
$begin = hrtime(true);
for ($i = 0; $i < (int) $work; $i++) $unit();
printf("%.9f\n", (hrtime(true) - $begin) / 1e9);
