--- How things stand, as the server tells it; for the statusline and for whoever asks.
local M = {}

---@class tabahead.Status
---@field kind 'busy'|'normal'|'warning'|'inactive'|'error'
---@field message string a sentence
---@field model string|nil
---@field provider string|nil such as `CPU`; a script has none
---@field last_ms number|nil what the last answer with text took

---@type tabahead.Status
local current = { kind = 'inactive', message = 'The server has not been started yet.' }

--- The server's own, once it has been started.
---@type string|nil
M.version = nil

local SIGNS = { busy = ' …', normal = '', warning = ' !', inactive = ' –', error = ' ✗' }

---@param event string
local function announce(event)
  vim.api.nvim_exec_autocmds('User', { pattern = event, modeline = false })
end

---@param told tabahead.Status
function M.set(told)
  local was_ready = current.kind == 'normal'
  current = told
  announce('TabaheadStatus')
  if told.kind == 'normal' and not was_ready then
    announce('TabaheadReady')
  end
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
