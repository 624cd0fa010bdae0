# Programs in Perl: perl scripts.pl NAME WORK [SIZE [SHAPE]]. Prints the seconds of the work.
use strict;
use warnings;
use Time::HiRes qw(time);

my ($name, $work, $size, $shape) = @ARGV;
$shape //= '';
my %programs = (
    counting => sub { $size //= 1000; my @words = map { 'word' . $_ * $_ % 211 } 1 .. $size;
        sub { my %counts; $counts{$_}++ for @words; scalar keys %counts } },
    sorting => sub { $size //= 1000; my @numbers = map { $_ * 7919 % 10007 } 1 .. $size;
        $shape eq 'text' ? sub { my @sorted = sort @numbers; $sorted[0] } : sub { my @sorted = sort { $a <=> $b } @numbers; $sorted[0] } },
    matching => sub { $size //= 100; my $text = join '', map { "2026-05-$_ host$_ took $_ ms\n" } 1 .. $size;
        my $pattern = $shape eq 'lazy' ? qr/(\d+?)-(\d+?)-(\d+?) (.*?) took (.*?) ms/ : qr/(\d+)-(\d+)-(\d+) (\w+) took (\d+) ms/;
        sub { my $n = 0; $n += $5 while $text =~ /$pattern/g; $n } },
    strings => sub { $size //= 500;
        $shape eq 'join' ? sub { my $text = join ',', map { "$_:" . $_ * $_ } 1 .. $size; length $text }
                         : sub { my $text = ''; $text .= sprintf('%d:%d,', $_, $_ * $_) for 1 .. $size; length $text } },
    loops => sub { $size //= 3000; sub { my $sum = 0; for my $i (1 .. $size) { $sum += $i * 3 % 7 } $sum } },
);
my $unit = $programs{$name}->();
$unit->();
my $begin = time;
$unit->() for 1 .. $work;
printf "%.9f\n", time - $begin;
