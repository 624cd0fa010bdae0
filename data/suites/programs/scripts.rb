# Programs in Ruby: ruby scripts.rb NAME WORK [SIZE [SHAPE]]. Prints the seconds of the work.
name, work, size, shape = ARGV
size = size&.to_i
unit = case name
       when 'counting'
         words = (1..(size || 1000)).map { |i| "word#{i * i % 211}" }
         shape == 'tally' ? -> { words.tally } : -> { counts = Hash.new(0); words.each { |w| counts[w] += 1 }; counts }
       when 'blocks'
         n = size || 1500
         shape == 'while' ? -> { s = 0; i = 0; while (i += 1) <= n do s += i * 2 if i % 3 > 0 end; s } : -> { (1..n).select { |i| i % 3 > 0 }.map { |i| i * 2 }.sum }
       when 'strings'
         n = size || 400
         shape == 'add' ? -> { s = ''; n.times { |i| s += "#{i}:#{i * i}," }; s } : -> { s = +''; n.times { |i| s << "#{i}:#{i * i}," }; s }
       end
unit.call
begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
work.to_i.times { unit.call }
puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun
