--- Why is nothing shown here? What this side knows, else what the server says of its last answer.
local compat = require('tabahead.compat')
local server = require('tabahead.server')
local status = require('tabahead.status')

local M = {}

---@param answer {reason: string|nil, message: string}|nil
---@return string
local function sentence(answer)
  if not answer then
    return 'the server has not been asked about this buffer yet; type something'
  elseif type(answer.reason) ~= 'string' then
    return answer.message
  end
  return ('%s (%s)'):format(answer.message, answer.reason)
end

--- For the current buffer.
function M.run()
  local bufnr = vim.api.nvim_get_current_buf()
  local client = server.client()
  local refusal = server.refusal(bufnr)
  if refusal then
    return server.notify(refusal)
  elseif vim.b[bufnr].tabahead == false then
    return server.notify('it is off in this buffer; `:Tabahead toggle` turns it on')
  elseif not client then
    return server.notify(status.get().message, vim.log.levels.WARN)
  end
  local params = { textDocument = { uri = vim.uri_from_bufnr(bufnr) } }
  compat.call(client, 'request', 'tabahead/explain', params, function(err, answer)
    if err then
      return server.notify(err.message, vim.log.levels.ERROR)
    end
    server.notify(sentence(answer))
  end)
end

return M
