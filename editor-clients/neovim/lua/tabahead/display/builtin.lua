--- Ghost text by Neovim's own vim.lsp.inline_completion (0.12).
---
--- It asks 200 ms after the last key, keeps what no longer fits until then, and when something is
--- accepted in that time leaves what was typed behind it. So its requests are not sent: they are
--- how it can be told what to show, at once and as often as that changes. Until it has asked, and
--- where it draws badly, marks of our own stand in.
local compat = require('tabahead.compat')
local extmark = require('tabahead.display.extmark')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
-- Neovim's.
local namespace = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')

---@type table<integer, fun(err: any, result: any)> by buffer: answers its last request
local answer = {}
---@type table<integer, table> by buffer: the answer that it was given last
local shown = {}
local is_ours = false
local last_id = 0

---@param client vim.lsp.Client
---@param insertion tabahead.Insertion
---@return lsp.InlineCompletionItem
local function item_of(client, insertion)
  local line = vim.api.nvim_get_current_line()
  local text, end_col = insertion.text, insertion.end_col
  local covered = line:sub(insertion.col + 1, end_col)
  if covered ~= '' and vim.endswith(text, covered) then
    -- It would be drawn over what stands there already.
    text, end_col = text:sub(1, -#covered - 1), insertion.col
  end
  local function position(col)
    local character = compat.num_units(line:sub(1, col), client.offset_encoding)
    return { line = insertion.row, character = character }
  end
  return {
    insertText = text,
    range = { start = position(insertion.start_col), ['end'] = position(end_col) },
    command = insertion.item.command,
  }
end

--- Answer Neovim's last request, again if need be.
---@param bufnr integer
---@param list lsp.InlineCompletionItem[]
---@param index integer
---@return boolean done false: it has not asked yet, and will within 200 ms
local function give(bufnr, list, index)
  shown[bufnr] = { list = list, index = index }
  local tell = answer[bufnr]
  -- It fails where Neovim's side has been disabled since; enabled again, it will ask again.
  if not tell or not pcall(tell, nil, { items = list }) then
    answer[bufnr] = nil
    return false
  end
  if index > 1 then
    vim.lsp.inline_completion.select({ bufnr = bufnr, count = index - 1 })
  end
  return true
end

--- It draws what stands in place of other text over that, and what begins left of the cursor from
--- the cursor on.
---@param item lsp.InlineCompletionItem
---@return boolean
local function is_drawn_well(item)
  return item.range.start.character == item.range['end'].character
end

--- Whether the user has left Neovim's display on.
---@param bufnr integer
---@return boolean
function M.is_on(bufnr)
  return vim.lsp.inline_completion.is_enabled({ bufnr = bufnr })
end

---@param bufnr integer
---@param insertions tabahead.Insertion[]
---@param index integer
function M.show(bufnr, insertions, index)
  local client = require('tabahead.server').client()
  if not client then
    return M.hide(bufnr)
  end
  local list = {}
  for _, insertion in ipairs(insertions) do
    list[#list + 1] = item_of(client, insertion)
  end
  local is_for_neovim = is_drawn_well(list[index])
  local is_told = give(bufnr, is_for_neovim and list or {}, index)
  if is_for_neovim and is_told then
    extmark.hide(bufnr)
  else
    extmark.show(bufnr, insertions, index)
  end
end

---@param bufnr integer
function M.hide(bufnr)
  extmark.hide(bufnr)
  give(bufnr, {}, 1)
  if vim.api.nvim_buf_is_valid(bufnr) then
    -- Outside insert mode, as behind <C-c>, it is told in vain.
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

--- Send a request of ours.
---@param send fun()
function M.asking(send)
  is_ours = true
  send()
  is_ours = false
end

--- Start the server, with an ear for what Neovim asks it.
---@param cmd string[]
---@param dispatchers vim.lsp.rpc.Dispatchers
---@param spawn vim.lsp.rpc.ExtraSpawnParams
---@return vim.lsp.rpc.PublicClient
function M.start(cmd, dispatchers, spawn)
  local rpc = vim.lsp.rpc.start(cmd, dispatchers, spawn)
  local send = rpc.request
  rpc.request = function(method, params, callback, done)
    if method ~= METHOD or is_ours then
      return send(method, params, callback, done)
    end
    last_id = last_id - 1 -- the client counts its own upwards
    local id, bufnr = last_id, vim.uri_to_bufnr(params.textDocument.uri)
    answer[bufnr] = function(err, result)
      callback(err, result, id)
    end
    vim.schedule(function()
      done(id)
      local now = shown[bufnr]
      if now and give(bufnr, now.list, now.index) and #now.list > 0 then
        extmark.hide(bufnr)
      end
    end)
    return true, id
  end
  return rpc
end

---@param client vim.lsp.Client
---@param bufnr integer
function M.attach(client, bufnr)
  vim.lsp.inline_completion.enable(true, { bufnr = bufnr })
  vim.api.nvim_create_autocmd('LspDetach', {
    buffer = bufnr,
    callback = function(event)
      if event.data.client_id == client.id then
        answer[bufnr], shown[bufnr] = nil, nil
        return true -- done with this autocommand
      end
    end,
  })
end

return M
