--- No completions for a while, or in one buffer.
local completion = require('tabahead.completion')
local server = require('tabahead.server')

local M = {}

---@type uv.uv_timer_t|nil
local timer

local function stop_timer()
  if timer then
    timer:stop()
    timer = nil
  end
end

---@param minutes number|nil nil: until resume()
function M.pause(minutes)
  stop_timer()
  server.is_paused = true
  server.execute('tabahead.pause')
  if minutes then
    timer = vim.defer_fn(M.resume, minutes * 60000)
  end
end

function M.resume()
  stop_timer()
  server.is_paused = false
  server.execute('tabahead.resume')
end

--- Off, or on again, in the current buffer.
function M.toggle()
  local is_off = vim.b.tabahead == false
  vim.b.tabahead = is_off
  server.notify(is_off and 'on in this buffer' or 'off in this buffer')
  vim.cmd.redrawstatus()
  completion.stop()
  completion.follow()
end

return M
