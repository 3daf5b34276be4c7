--- How things stand, as the server tells it; for the statusline and for whoever asks.
local M = {}

---@class tabahead.Status
---@field kind 'busy'|'normal'|'warning'|'inactive'|'error'
---@field message string

---@type tabahead.Status
local current = { kind = 'inactive', message = 'The server has not been started yet.' }

--- The server's own, once it has been started.
---@type string|nil
M.version = nil

local SIGNS = { busy = ' …', normal = '', warning = ' !', inactive = ' –', error = ' ✗' }

---@param told tabahead.Status
function M.set(told)
  current = told
  vim.api.nvim_exec_autocmds('User', { pattern = 'TabaheadStatus', modeline = false })
  vim.cmd.redrawstatus({ bang = true })
end

---@return tabahead.Status
function M.get()
  return current
end

--- For 'statusline': the name, and a sign where something keeps completions away.
---@return string
function M.line()
  if vim.b.tabahead == false then
    return 'tabahead' .. SIGNS.inactive
  end
  return 'tabahead' .. SIGNS[current.kind]
end

return M
