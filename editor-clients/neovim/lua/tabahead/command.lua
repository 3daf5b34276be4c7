--- `:Tabahead` and its subcommands.
local config = require('tabahead.config')

local M = {}

local NAMES = {
  'accept',
  'accept_line',
  'accept_word',
  'dismiss',
  'explain',
  'next',
  'pause',
  'previous',
  'restart',
  'resume',
  'statistics',
  'status',
  'toggle',
  'trigger',
}

---@param message string
local function complain(message)
  vim.notify('tabahead: ' .. message, vim.log.levels.ERROR, { title = 'tabahead' })
end

---@param arguments string[]
function M.run(arguments)
  local tabahead = require('tabahead')
  local name, argument = arguments[1] or 'status', arguments[2]
  if not vim.list_contains(NAMES, name) then
    local nearest = config.nearest(name, NAMES)
    complain(('there is no `:Tabahead %s`; did you mean `%s`?'):format(name, nearest))
  elseif not tabahead.is_set_up then
    complain("call require('tabahead').setup() in your configuration first")
  elseif name == 'status' then
    require('tabahead.server').notify(tabahead.status().message)
  elseif name == 'pause' then
    local minutes = tonumber(argument)
    if argument and (not minutes or minutes <= 0) then
      return complain('`:Tabahead pause` takes a number of minutes, such as 10')
    end
    tabahead.pause(minutes)
  else
    tabahead[name]()
  end
end

---@param line string
---@return string[]
function M.complete(line)
  local typed = line:match('Tabahead%s+(%S*)$')
  return vim.tbl_filter(function(name)
    return typed ~= nil and vim.startswith(name, typed)
  end, NAMES)
end

return M
