-- Programs in Lua: lua scripts.lua NAME WORK [SIZE [SHAPE]]. Prints the processor seconds of the work.
local name, work, size, shape = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4]
local programs = {
  loops = function()
    size = size or 5000
    return function() local sum = 0 for i = 1, size do sum = sum + i * 3 % 7 end return sum end
  end,
  tables = function()
    size = size or 500
    return function()
      local t = {}
      for i = 1, size do t["k" .. i % 97] = (t["k" .. i % 97] or 0) + i end
      return t
    end
  end,
  sorting = function()
    size = size or 500
    return function()
      local t = {}
      for i = 1, size do t[i] = shape == "sorted" and i or i * 7919 % 10007 end
      table.sort(t)
      return t[1]
    end
  end,
  strings = function()
    size = size or 300
    if shape == "add" then
      return function() local s = "" for i = 1, size do s = s .. i .. "," end return #s end
    end
    return function() local t = {} for i = 1, size do t[#t + 1] = i .. "," end return #table.concat(t) end
  end,
  queens = function()
    size = size or 6
    local function place(row, columns, up, down)
      if row > size then return 1 end
      local found = 0
      for c = 1, size do
        if not columns[c] and not up[row + c] and not down[row - c] then
          columns[c], up[row + c], down[row - c] = true, true, true
          found = found + place(row + 1, columns, up, down)
          columns[c], up[row + c], down[row - c] = nil, nil, nil
        end
      end
      return found
    end
    return function() return place(1, {}, {}, {}) end
  end,
}
local unit = programs[name]()
unit()
if shape == "nojit" and jit then jit.off() end
local begin = os.clock()
for _ = 1, work do unit() end
print(string.format("%.9f", os.clock() - begin))
